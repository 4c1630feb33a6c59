package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg/hclspec"
)

func TestFindProgram_LooksInTheTaskFirst(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for path, mode := range map[string]os.FileMode{
		filepath.Join(dir, "web", "local", "both"):   0o644, // not executable yet, as artifacts are
		filepath.Join(dir, "web", "bin", "mine"):     0o755,
		filepath.Join(elsewhere, "both"):             0o755,
		filepath.Join(elsewhere, "theirs"):           0o755,
		filepath.Join(elsewhere, "plain"):            0o644,
		filepath.Join(dir, "web", "local", "d", "x"): 0o755,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"both":                             filepath.Join(dir, "web", "local", "both"),
		"bin/mine":                         filepath.Join(dir, "web", "bin", "mine"),
		"theirs":                           filepath.Join(elsewhere, "theirs"),
		filepath.Join(elsewhere, "theirs"): filepath.Join(elsewhere, "theirs"),
		filepath.Join(elsewhere, "plain"):  "is not executable",
		"plain":                            "not found",
		"d":                                "not found",
		"sub/theirs":                       "not found",
	} {
		task := Task{Name: "web", AllocDir: dir, Stanza: hclspec.Stanza{Command: command}}
		got, err := findProgram(task, []string{"PATH=" + elsewhere})
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", command, got, want)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "web", "local", "both")); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("not made executable: %v, %v", info.Mode(), err)
	}
}

func TestWriteGrant_QuotesWhatAnEnvFileWouldMisread(t *testing.T) {
	task := Task{ID: "a1/gate/1", AllocDir: t.TempDir()}
	for range 2 { // a restarted gate replaces the file
		if err := writeGrant(task, []string{"A=plain-1.2,GPU:3", `B=a "b" $c` + "\nd"}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(task.AllocDir, "alloc", "psg", "grant.env"))
	if want := "A=plain-1.2,GPU:3\nB=\"a \\\"b\\\" $c\\nd\"\n"; err != nil || string(data) != want {
		t.Errorf("got %q, %v", data, err)
	}
	left, err := filepath.Glob(filepath.Join(task.AllocDir, "alloc", "psg", "*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func FuzzDecodeHandle(f *testing.F) {
	good, err := Handle{Version: handleVersion, Dir: "/var/lib/psg"}.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version": 2}`))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, err := DecodeHandle(data); err == nil && !filepath.IsAbs(h.Dir) {
			t.Errorf("accepted %+v", h)
		}
	})
}
