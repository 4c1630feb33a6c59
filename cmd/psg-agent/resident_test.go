package main

import (
	"os"
	"slices"
	"testing"
)

func TestTextOf_OnlyWhatTheFileStillHas(t *testing.T) {
	const smaps = `00400000-00800000 r-xp 00000000 fe:00 1 /bin/psg-agent
Rss: 4096 kB
Anonymous: 0 kB
00800000-00900000 r--p 00400000 fe:00 1 /bin/psg-agent
Anonymous: 4 kB
00900000-00a00000 rw-p 00500000 fe:00 1 /bin/psg-agent
Anonymous: 0 kB
00a00000-00b00000 r--p 00000000 fe:00 1 /bin/other
Anonymous: 0 kB
00b00000-00c00000 r--p 00600000 fe:00 1 /bin/psg-agent
Anonymous: 0 kB
c000000000-c000400000 r--p 00000000 00:00 0
Anonymous: 0 kB
`
	want := []mapping{{0x400000, 0x800000}, {0xb00000, 0xc00000}}
	if got := textOf([]byte(smaps), "/bin/psg-agent"); !slices.Equal(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}

func TestTextOf_FindsThisProgram(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(textOf(smaps, program)) == 0 {
		t.Errorf("no text of %s in\n%s", program, smaps)
	}
}

func FuzzTextOf(f *testing.F) {
	f.Add([]byte("00400000-00800000 r-xp 00000000 fe:00 1 /bin/psg-agent\nAnonymous: 0 kB\n"))
	f.Fuzz(func(t *testing.T, smaps []byte) {
		for _, m := range textOf(smaps, "/bin/psg-agent") {
			if m.start >= m.end {
				t.Errorf("%q gives %#v", smaps, m)
			}
		}
	})
}
