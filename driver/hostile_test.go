package driver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

// victim is a file outside the allocation that must stay as it is.
func victim(t *testing.T) (path string, check func()) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "victim")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		data, err := os.ReadFile(path)
		info, statErr := os.Stat(path)
		entries, dirErr := os.ReadDir(dir)
		if err := errors.Join(err, statErr, dirErr); err != nil || string(data) != "mine" || info.Mode().Perm() != 0o600 || len(entries) != 1 {
			t.Errorf("%q with mode %v beside %v: %v", data, info.Mode(), entries, err)
		}
	}
}

func link(t *testing.T, target string, path ...string) {
	t.Helper()
	at := filepath.Join(path...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.Symlink(target, at)); err != nil {
		t.Fatal(err)
	}
}

func TestWriteGrant_FollowsNoLinkOutOfTheAllocation(t *testing.T) {
	const id = "a1/gate/1"
	for _, at := range []string{"alloc", "alloc/psg", "alloc/psg/grant.env", "alloc/psg/grant.env." + shortID(id)} {
		target, check := victim(t)
		task := Task{ID: id, AllocDir: t.TempDir()}
		if !strings.Contains(at, "grant") {
			target = filepath.Dir(target)
		}
		link(t, target, task.AllocDir, at)
		err := writeGrant(task, []string{"A=b"})
		if dir := !strings.Contains(at, "grant"); dir != (err != nil) {
			t.Errorf("%s: %v", at, err)
		}
		check()
	}
}

func TestWriteGrant_HasNoTemplateAndNoSecondVariable(t *testing.T) {
	task := Task{ID: "a1/gate/1", AllocDir: t.TempDir()}
	if err := writeGrant(task, []string{"A={{ env `HOME` }}", "B=x\nLD_PRELOAD=/tmp/x", "C=\x00\x07\u2028\xff"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(task.AllocDir, grantFile))
	// Each escape is one that JSON has, and so the reader of env files.
	want := `A="\u007b\u007b env ` + "`HOME`" + ` }}"` + "\n" + `B="x\nLD_PRELOAD=/tmp/x"` + "\n" + `C="\u0000\u0007\u2028\ufffd"` + "\n"
	if err != nil || string(data) != want {
		t.Errorf("got  %s\nwant %s%v", data, want, err)
	}
}

func TestFindProgram_ChangesNoModeOutsideTheAllocation(t *testing.T) {
	path, check := victim(t)
	dir := t.TempDir()
	link(t, path, dir, "web", "local", "x")
	link(t, filepath.Dir(path), dir, "web", "local", "d")
	for _, command := range []string{"x", "d/victim", filepath.Join(dir, "web/local/x"), "../../../" + path, path} {
		task := Task{Name: "web", AllocDir: dir, Stanza: hclspec.Stanza{Command: command}}
		if got, err := findProgram(task, nil); err == nil {
			t.Errorf("%s: found %s", command, got)
		}
		check()
	}
}

func TestMakeStateDir_StaysInTheAllocation(t *testing.T) {
	path, check := victim(t)
	task := Task{ID: "a1/web/1", Name: "web", AllocDir: t.TempDir()}
	link(t, filepath.Dir(path), task.AllocDir, "web")
	if dir, err := makeStateDir("", task); err == nil {
		t.Errorf("made %s", dir)
	}
	check()
	task.AllocDir = filepath.Join(t.TempDir(), "gone")
	if dir, err := makeStateDir("", task); err == nil {
		t.Errorf("made %s anew", dir)
	}
}

func TestReadRecord_BelievesOnlyWhatIsPrivate(t *testing.T) {
	dir := t.TempDir()
	if err := (record{Told: "x"}).write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if r, err := readRecord(dir); err != nil || r.Told != "x" {
		t.Errorf("got %+v, %v", r, err)
	}
	other := filepath.Join(t.TempDir(), "link")
	link(t, dir, other)
	if _, err := readRecord(other); err == nil {
		t.Error("followed a link")
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := readRecord(dir); err == nil {
		t.Error("believed what others may write")
	}
}

func TestTask_CheckNamesWhatIsWrong(t *testing.T) {
	for want, change := range map[string]func(*Task){
		"lacks an id":                   func(t *Task) { t.Alloc = "" },
		`"../../etc" names no dir`:      func(t *Task) { t.Name = "../../etc" },
		`".." names no dir`:             func(t *Task) { t.Name = ".." },
		`"." names no dir`:              func(t *Task) { t.Name = "." },
		`"" names no dir`:               func(t *Task) { t.Name = "" },
		`"a/b" names no dir`:            func(t *Task) { t.Name = "a/b" },
		`"alloc/a1" is not absolute`:    func(t *Task) { t.AllocDir = "alloc/a1" },
		"memory must be 0 to":           func(t *Task) { t.Limits.MemoryMB = -1 },
		"memory_max must be -1 to":      func(t *Task) { t.Limits.MemoryMaxMB = -2 },
		"cpu must be 0 to":              func(t *Task) { t.Limits.CPUShares = psg.MaxQuantity + 1 },
		`user "root\nx": user: unknown`: func(t *Task) { t.User = "root\nx" },
	} {
		task := Task{ID: "a1/web/1", Name: "web", Alloc: "a1", Node: "n", AllocDir: "/alloc/a1", Stanza: hclspec.Stanza{Command: "true"}}
		if err := task.check(); err != nil {
			t.Fatal(err)
		}
		change(&task)
		if err := task.check(); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	unlimited := Task{ID: "a", Name: "web", Alloc: "a1", Node: "n", AllocDir: "/a", Limits: executor.Limits{MemoryMaxMB: executor.NoMemoryLimit}}
	if err := unlimited.check(); err != nil {
		t.Error(err)
	}
}

func TestCheckDevices_RefusesNamesThatMeanMore(t *testing.T) {
	for _, id := range []psg.DeviceID{"", "all", "none", "GPU-1,GPU-2", "GPU 1", "$(reboot)", "GPU-1\nX=y", "{{x}}"} {
		if err := checkDevices([]psg.DeviceShare{{Device: "GPU-1"}, {Device: id}}); !errors.Is(err, psg.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := checkDevices([]psg.DeviceShare{{Device: "MIG-GPU-aa11/1/0"}, {Device: "0000:03:00.0"}}); err != nil {
		t.Error(err)
	}
}

func TestSilentSince_CountsFromTheBreakOfALongPoll(t *testing.T) {
	asked := time.Now().Add(-time.Minute)
	if since := silentSince(asked, errDown); time.Since(since) > time.Second {
		t.Errorf("silent for %v", time.Since(since))
	}
}
