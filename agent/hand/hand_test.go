package hand

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// tree writes a control group as the kernel shows it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func unifiedTree(t *testing.T) Groups {
	dir := tree(t, map[string]string{
		"cpu.max": "max 100000\n", "memory.high": "max\n", "cgroup.freeze": "0\n",
		"io.max": "8:0 rbps=1000 wbps=max riops=max wiops=max\n",
	})
	return Groups{Unified: true, CPU: dir, Memory: dir, IO: dir, Freezer: dir}
}

func separateTree(t *testing.T) Groups {
	dir := tree(t, map[string]string{
		"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n",
		"memory.limit_in_bytes": "9223372036854771712\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
		"memory.stat":                    "cache 1\ntotal_rss 8388608\ntotal_shmem 0\ntotal_unevictable 0\n",
		"blkio.throttle.read_bps_device": "", "blkio.throttle.write_bps_device": "8:0 500\n",
		"blkio.throttle.read_iops_device": "", "blkio.throttle.write_iops_device": "",
		"freezer.state": "THAWED\n",
	})
	return Groups{CPU: dir, Memory: dir, IO: dir, Freezer: dir}
}

var everything = Limit{Cores: 0.5, MemoryMB: 64, ReadBps: 2000, WriteBps: 3000, ReadOps: 10, Frozen: true}

func TestPlan_OnUnified(t *testing.T) {
	g := unifiedTree(t)
	writes, err := Hand{Devices: []string{"8:0", "259:0"}}.Plan(g, everything)
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{File: g.CPU + "/cgroup.freeze", Was: "0", Now: "1"},
		{File: g.CPU + "/cpu.max", Was: "max 100000", Now: "50000 100000"},
		{File: g.CPU + "/io.max", Device: "8:0", Was: "rbps=1000 wbps=max riops=max wiops=max", Now: "rbps=1000 wbps=3000 riops=10 wiops=max"},
		{File: g.CPU + "/io.max", Device: "259:0", Was: "rbps=max wbps=max riops=max wiops=max", Now: "rbps=2000 wbps=3000 riops=10 wiops=max"},
		{File: g.CPU + "/memory.high", Was: "max", Now: "67108864"},
	}
	if !slices.Equal(writes, want) {
		t.Errorf("planned\n%+v\nwant\n%+v", writes, want)
	}
}

func TestPlan_OnSeparate(t *testing.T) {
	g := separateTree(t)
	writes, err := Hand{Devices: []string{"8:0"}}.Plan(g, everything)
	if err != nil {
		t.Fatal(err)
	}
	want := []Write{
		{File: g.CPU + "/freezer.state", Was: "THAWED", Now: "FROZEN"},
		{File: g.CPU + "/cpu.cfs_quota_us", Was: "-1", Now: "50000"},
		{File: g.CPU + "/blkio.throttle.read_bps_device", Device: "8:0", Was: "", Now: "2000"},
		// 500 bytes a second are tighter than what is wanted: left.
		{File: g.CPU + "/blkio.throttle.read_iops_device", Device: "8:0", Was: "", Now: "10"},
		{File: g.CPU + "/memory.oom_control", Was: "0", Now: "1"},
		{File: g.CPU + "/memory.limit_in_bytes", Was: "9223372036854771712", Now: "67108864"},
	}
	if !slices.Equal(writes, want) {
		t.Errorf("planned\n%+v\nwant\n%+v", writes, want)
	}
}

func TestPlan_LeavesMemoryThatCannotBeReclaimed(t *testing.T) {
	g := separateTree(t)
	writes, err := Hand{}.Plan(g, Limit{MemoryMB: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := writes[1].Now, "13631488"; got != want { // 8 MiB held, an eighth of it, and 4 MiB
		t.Errorf("limit %s, want %s", got, want)
	}
}

func TestPlan_NeverLoosens(t *testing.T) {
	for name, g := range map[string]Groups{"unified": unifiedTree(t), "separate": separateTree(t)} {
		for _, w := range plan(t, g, Limit{Cores: 0.25, MemoryMB: 16}) {
			if err := Do(w); err != nil {
				t.Fatal(err)
			}
		}
		if g.Unified == false { // the kernel would show it so
			replace(t, g.CPU+"/memory.oom_control", "oom_kill_disable 1\n")
		}
		if writes := plan(t, g, Limit{Cores: 0.5, MemoryMB: 32}); len(writes) != 0 {
			t.Errorf("%s: a looser limit is planned over a tighter one: %+v", name, writes)
		}
	}
}

func plan(t *testing.T, g Groups, l Limit) []Write {
	t.Helper()
	writes, err := Hand{Devices: []string{"8:0"}}.Plan(g, l)
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

func replace(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestUndo_LeavesWhatSomebodyElseSetSince(t *testing.T) {
	g := unifiedTree(t)
	w := plan(t, g, Limit{Cores: 1})[0]
	if err := Do(w); err != nil {
		t.Fatal(err)
	}
	replace(t, w.File, "20000 100000\n")
	if err := Undo(w); err != nil {
		t.Fatal(err)
	}
	if got := read(t, w.File); got != "20000 100000\n" {
		t.Errorf("undo overwrote another's limit: %q", got)
	}
	replace(t, w.File, "100000 100000\n")
	if err := Undo(w); err != nil || read(t, w.File) != w.Was {
		t.Errorf("own limit is still %q, %v", read(t, w.File), err)
	}
	if err := Undo(w); err != nil {
		t.Errorf("undone twice: %v", err)
	}
}

func TestUndo_OfAGroupThatIsGone(t *testing.T) {
	g := unifiedTree(t)
	w := plan(t, g, Limit{Frozen: true})[0]
	if err := os.Remove(w.File); err != nil {
		t.Fatal(err)
	}
	if err := Undo(w); err != nil {
		t.Errorf("a group that is gone cannot be undone: %v", err)
	}
	if err := Do(w); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Do = %v, want that it does not exist", err)
	}
}

func TestPlan_SaysWhatIsWrong(t *testing.T) {
	garbled := unifiedTree(t)
	replace(t, garbled.CPU+"/cpu.max", "soon\n")
	replace(t, garbled.CPU+"/cgroup.freeze", "melting\n")
	for name, test := range map[string]struct {
		hand   Hand
		groups Groups
		limit  Limit
	}{
		"no group":       {Hand{}, Groups{}, Limit{Cores: 1}},
		"no freezer":     {Hand{}, Groups{CPU: t.TempDir()}, Limit{Frozen: true}},
		"no file":        {Hand{}, Groups{Unified: true, Memory: t.TempDir()}, Limit{MemoryMB: 1}},
		"no device":      {Hand{}, unifiedTree(t), Limit{ReadBps: 1}},
		"garbled quota":  {Hand{}, garbled, Limit{Cores: 1}},
		"garbled freeze": {Hand{}, garbled, Limit{Frozen: true}},
	} {
		if writes, err := test.hand.Plan(test.groups, test.limit); err == nil {
			t.Errorf("%s: planned %+v", name, writes)
		}
	}
}

func TestDevices_AreWholeDisksOnly(t *testing.T) {
	sys := tree(t, map[string]string{
		"block/sda/dev": "8:0\n", "block/nvme0n1/dev": "259:0\n", "block/loop0/dev": "7:0\n",
		"block/dm-0/dev": "253:1\n", "block/zram0/dev": "253:0\n", "block/broken/size": "1\n",
	})
	devices, err := Devices(sys)
	if err != nil || !slices.Equal(devices, []string{"259:0", "8:0"}) {
		t.Errorf("devices %q, %v", devices, err)
	}
	if _, err := Devices(t.TempDir()); err == nil {
		t.Error("no error without a list of devices")
	}
}
