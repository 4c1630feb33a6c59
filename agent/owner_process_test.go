package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/psgrid/psg"
)

func TestAllocOf_AsksTheGroupThenTheEnvironment(t *testing.T) {
	const byGroup, byEnvironment = "0c3f9f1e-5a7b-4c1d-9f00-000000000001", "0c3f9f1e-5a7b-4c1d-9f00-000000000002"
	proc := t.TempDir()
	process := func(pid int, groups, environ string, vouching ...string) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		files := map[string]string{"cgroup": groups, "environ": environ}
		for i := 0; i < len(vouching); i += 2 {
			files[vouching[i]] = vouching[i+1]
		}
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	process(10, "0::/nomad.slice/share.slice/"+byGroup+".web.scope\n", "NOMAD_ALLOC_ID="+byEnvironment+"\x00")
	process(11, "5:cpu:/nomad/"+byGroup+".web\n", "")
	const claim = "PATH=/\x00NOMAD_ALLOC_ID=" + byEnvironment + "\x00"
	process(12, "0::/system.slice/docker-0123.scope\n", claim, "mountinfo",
		"900 800 0:50 / / rw - overlay overlay rw\n901 900 254:1 /data/alloc/"+byEnvironment+"/alloc /alloc rw - ext4 /dev/vda rw\n")
	process(13, "0::/user.slice\n", "PATH=/\x00")
	// One that only says so, below a shell of its own, and in a place that sounds like it.
	process(15, "0::/user.slice\n", claim, "stat", "15 (sh) S 1 15 15 0\n", "mountinfo",
		"900 800 0:50 / /data/alloc/"+byEnvironment+"/alloc rw - overlay overlay rw\n")
	process(16, "0::/user.slice\n", claim, "stat", "16 (a) b) S 15 16 16 0\n")
	// A task of raw_exec in a group of its own choice, below Nomad's executor.
	process(20, "0::/\n", "", "cmdline", "nomad\x00executor\x00{\"LogFile\":\"/data/alloc/"+byEnvironment+"/main/executor.out\"}\x00")
	process(21, "0::/mine\n", "PATH=/\x00", "stat", "21 (sh) S 20 21 21 0\n")
	process(22, "0::/mine\n", claim, "stat", "22 (worker) S 21 21 21 0\n")
	for pid, want := range map[int]psg.AllocID{10: byGroup, 11: byGroup, 12: byEnvironment, 13: "", 14: "", 15: "", 16: "", 22: byEnvironment, 0: "", -1: ""} {
		if got, ok := AllocOf(proc, pid); got != want || ok != (want != "") {
			t.Errorf("process %d belongs to %q, %v; want %q", pid, got, ok, want)
		}
	}
}

func FuzzAllocByGroups(f *testing.F) {
	f.Add([]byte("0::/nomad.slice/share.slice/0c3f9f1e-5a7b-4c1d-9f00-000000000001.web.scope\n"))
	f.Add([]byte("5:cpu,cpuacct:/\n::\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if alloc, ok := allocByGroups(text); ok != IsAllocID(string(alloc)) {
			t.Errorf("%q, %v", alloc, ok)
		}
	})
}

// TestAllocOf_TrustsNoExecutorOfAUser: whoever is root may start what looks like
// Nomad's executor; others may, too, and that counts for nothing.
func TestAllocOf_TrustsNoExecutorOfAUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: only root can make files of others")
	}
	const alloc = "0c3f9f1e-5a7b-4c1d-9f00-000000000003"
	proc := t.TempDir()
	for name, text := range map[string]string{
		"30/cmdline": "sh\x00/data/alloc/" + alloc + "/main/executor.out\x00",
		"31/stat":    "31 (sh) S 30 31 31 0\n", "31/environ": "NOMAD_ALLOC_ID=" + alloc + "\x00", "31/cgroup": "0::/\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := AllocOf(proc, 31); !ok || got != alloc {
		t.Errorf("below root's: %q, %t", got, ok)
	}
	if err := os.Chown(filepath.Join(proc, "30"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if got, ok := AllocOf(proc, 31); ok {
		t.Errorf("below a user's: %q", got)
	}
}
