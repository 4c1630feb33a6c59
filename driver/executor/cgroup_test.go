package executor

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree makes files as a cgroup file system would have them.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// reads returns what files hold now.
func reads(t *testing.T, root string, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = string(data)
	}
	return out
}

func TestMakeGroups_UsesNomadsUnifiedGroup(t *testing.T) {
	const group = "nomad.slice/share.slice/a1.web.scope/"
	root := tree(t, map[string]string{
		"cgroup.controllers": "cpu memory", group + "memory.max": "max", group + "memory.low": "0",
		group + "cpu.weight": "1", group + "cpuset.cpus": "", group + "memory.events": "oom 0\noom_kill 2\n",
	})
	g := makeGroups(root, Limits{
		CPUShares: 500, MemoryMB: 64, MemoryMaxMB: 128, CPUs: "1-2", Group: filepath.Join(root, group), Parent: "psg", Name: "a1.web",
	})
	want := map[string]string{
		group + "memory.max": "134217728", group + "memory.low": "67108864",
		group + "cpu.weight": "19", group + "cpuset.cpus": "1-2",
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	if got := reads(t, root, names...); !reflect.DeepEqual(got, want) || g.unapplied != nil {
		t.Errorf("got %v, unapplied %v", got, g.unapplied)
	}
	if got := g.exclusive(); len(got) != 1 || filepath.Clean(got[0]) != filepath.Join(root, group) {
		t.Errorf("exclusive %v", got)
	}
	if g.oomKilled() {
		t.Error("counts what was killed before")
	}
	if err := os.WriteFile(filepath.Join(root, group, "memory.events"), []byte("oom_kill 3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if !g.oomKilled() {
		t.Error("does not see what was killed since")
	}
	g.remove()
	if _, err := os.Stat(filepath.Join(root, group)); err != nil {
		t.Errorf("removed a group that is not ours: %v", err)
	}
}

func TestMakeGroups_NamesWhatIsNotPermitted(t *testing.T) {
	root := tree(t, map[string]string{"cgroup.controllers": ""})
	g := makeGroups(root, Limits{CPUShares: 500, MemoryMB: 64, Parent: "psg", Name: "a1.web"})
	if len(g.unapplied) != 2 || !strings.HasPrefix(g.unapplied[0], "memory: ") || !strings.HasPrefix(g.unapplied[1], "cpu weight: ") {
		t.Errorf("unapplied %q", g.unapplied)
	}
}

func TestMakeGroups_FindsNomadsSeparateGroups(t *testing.T) {
	root := tree(t, map[string]string{
		"memory/nomad/a1.web/memory.limit_in_bytes": "", "cpu/nomad/a1.web/cpu.shares": "",
		"freezer/nomad/a1.web/tasks": "", "cpuset/nomad/share/cpuset.cpus": "0-1",
	})
	g := makeGroups(root, Limits{
		CPUShares: 500, MemoryMB: 64, Group: filepath.Join(root, "cpuset/nomad/share"), Parent: "psg", Name: "a1.web",
	})
	got := reads(t, root, "memory/nomad/a1.web/memory.limit_in_bytes", "cpu/nomad/a1.web/cpu.shares", "cpuset/nomad/share/cpuset.cpus")
	want := map[string]string{
		"memory/nomad/a1.web/memory.limit_in_bytes": "67108864", "cpu/nomad/a1.web/cpu.shares": "500",
		"cpuset/nomad/share/cpuset.cpus": "0-1",
	}
	if !reflect.DeepEqual(got, want) || g.unapplied != nil {
		t.Errorf("got %v, unapplied %v", got, g.unapplied)
	}
	for _, dir := range g.exclusive() {
		if strings.Contains(dir, "share") {
			t.Errorf("%s holds other tasks too", dir)
		}
	}
	if len(g.exclusive()) != 3 {
		t.Errorf("exclusive %v", g.exclusive())
	}
}

func TestMakeGroups_ReservesCoresInItsOwnSet(t *testing.T) {
	root := tree(t, map[string]string{
		"memory/tasks": "", "cpu/tasks": "", "freezer/tasks": "",
		"cpuset/cpuset.cpus": "0-3\n", "cpuset/cpuset.mems": "0\n",
		"cpuset/psg/a1.web/cpuset.cpus": "", "cpuset/psg/a1.web/cpuset.mems": "",
		"cpuset/psg/cpuset.cpus": "", "cpuset/psg/cpuset.mems": "",
	})
	makeGroups(root, Limits{CPUs: "2", Parent: "psg", Name: "a1.web"})
	got := reads(t, root, "cpuset/psg/cpuset.cpus", "cpuset/psg/cpuset.mems", "cpuset/psg/a1.web/cpuset.mems")
	want := map[string]string{"cpuset/psg/cpuset.cpus": "0-3", "cpuset/psg/cpuset.mems": "0", "cpuset/psg/a1.web/cpuset.mems": "0"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	// Opened without O_TRUNC, as the kernel's files are: the new value is in front.
	if cpus := reads(t, root, "cpuset/psg/a1.web/cpuset.cpus")["cpuset/psg/a1.web/cpuset.cpus"]; !strings.HasPrefix(cpus, "2") {
		t.Errorf("cores %q", cpus)
	}
}

func TestMakeGroups_NeverTakesAParentForItsOwn(t *testing.T) {
	root := tree(t, map[string]string{"memory/tasks": "", "cpu/tasks": "", "freezer/tasks": "", "cpuset/nomad/share/tasks": ""})
	for _, name := range []string{"", ".", "..", "a/b"} {
		g := makeGroups(root, Limits{MemoryMB: 64, Parent: "psg", Name: name})
		if g.exclusive() != nil || g.made() != nil || len(g.unapplied) != 1 {
			t.Errorf("%q: takes %v, unapplied %v", name, g.exclusive(), g.unapplied)
		}
	}
	shared := makeGroups(root, Limits{Parent: "psg", Name: "a1.web", Group: filepath.Join(root, "cpuset/nomad/share")})
	for _, path := range shared.exclusive() {
		if filepath.Base(path) != "a1.web" {
			t.Errorf("takes %s", path)
		}
	}
}

func TestGroupsAt_KnowsTheHierarchies(t *testing.T) {
	root := tree(t, map[string]string{"memory/nomad/a/tasks": "", "cpu/nomad/a/tasks": ""})
	g := groupsAt(root, []string{filepath.Join(root, "memory/nomad/a"), filepath.Join(root, "cpu/nomad/a")})
	if g.unified || g.dirs[0].controller != "memory" || g.dirs[1].controller != "cpu" {
		t.Errorf("got %+v", g)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (sh) S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24"))
	f.Add([]byte("1 (a) b) S -1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := parseStat(7, data); err == nil && s.pid != 7 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestParseStat_SurvivesParenthesesInNames(t *testing.T) {
	s, err := parseStat(7, []byte("7 (a) (b c) S 2 3 4 5 6 7 8 9 10 11 100 200 30 40 18 19 20 21 9000 23 24 25"))
	want := procStat{pid: 7, session: 4, user: 130, sys: 240, startTicks: 9000, rssPages: 24}
	if err != nil || s != want {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestLimits_KeepMemoryMaxOfNoLimitApart(t *testing.T) {
	for limits, want := range map[Limits][2]int64{
		{MemoryMB: 64}:                   {64 << 20, 0},
		{MemoryMB: 64, MemoryMaxMB: 128}: {128 << 20, 64 << 20},
		{MemoryMB: 64, MemoryMaxMB: 32}:  {64 << 20, 0},
		{MemoryMB: 64, MemoryMaxMB: -1}:  {0, 64 << 20},
		{}:                               {0, 0},
	} {
		if hard, low := limits.memory(); hard != want[0] || low != want[1] {
			t.Errorf("%+v: hard %d, low %d", limits, hard, low)
		}
	}
}

func TestKillRest_KillsGroupsEvenWhenThePidIsReused(t *testing.T) {
	root := tree(t, map[string]string{"a1.web/cgroup.kill": ""})
	// Our own pid stands for somebody who was given the command's pid.
	killRest(Started{PID: os.Getpid(), Ticks: 1, Boot: bootID(), Groups: []string{filepath.Join(root, "a1.web")}})
	if got := reads(t, root, "a1.web/cgroup.kill")["a1.web/cgroup.kill"]; got != "1" {
		t.Errorf("the group was not killed: %q", got)
	}
}
