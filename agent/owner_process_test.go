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
	process := func(pid int, groups, environ string) {
		dir := filepath.Join(proc, strconv.Itoa(pid))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"cgroup": groups, "environ": environ} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	process(10, "0::/nomad.slice/share.slice/"+byGroup+".web.scope\n", "NOMAD_ALLOC_ID="+byEnvironment+"\x00")
	process(11, "5:cpu:/nomad/"+byGroup+".web\n", "")
	process(12, "0::/system.slice/docker-0123.scope\n", "PATH=/\x00NOMAD_ALLOC_ID="+byEnvironment+"\x00")
	process(13, "0::/user.slice\n", "PATH=/\x00")
	for pid, want := range map[int]psg.AllocID{10: byGroup, 11: byGroup, 12: byEnvironment, 13: "", 14: "", 0: "", -1: ""} {
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
