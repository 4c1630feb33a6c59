package agent

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// watch collects on a node whose clock stands still in between.
type watch struct {
	*Collector
	at time.Time
}

func watchOf(t testing.TB, n *node) *watch {
	w := &watch{collectorOf(t, n, slog.New(slog.DiscardHandler)), time.Unix(100, 0)}
	w.Collect(w.at)
	return w
}

func (w *watch) after(d time.Duration) []Use {
	w.at = w.at.Add(d)
	w.Collect(w.at)
	return w.Uses()
}

func tasksOf(uses []Use) string {
	var names []string
	for _, u := range uses {
		names = append(names, string(u.Alloc)[7:8]+"/"+u.Task)
	}
	return strings.Join(names, " ")
}

func TestUses_OnTheUnifiedHierarchy(t *testing.T) {
	n := newNode(t)
	dir := n.unifiedTask("web")
	w := watchOf(t, n)
	w.after(time.Second) // slow files have had their turn
	n.file(n.groups, dir+"/cpu.stat", "usage_usec 2500000\nnr_periods 20\nnr_throttled 6\nthrottled_usec 9\n")
	n.file(n.groups, dir+"/io.stat", "254:0 rbytes=3145728 wbytes=1048576 rios=5 wios=3 dbytes=0 dios=0\n254:16 rbytes=1048576 wbytes=0 rios=2 wios=0\n253:0 \n")
	n.file(n.groups, dir+"/cpu.pressure", "some avg10=0.00 avg60=0.00 avg300=0.00 total=250000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	n.file(n.groups, dir+"/memory.max", "1048576000\n")
	uses := w.after(time.Second)
	if len(uses) != 1 {
		t.Fatalf("tasks are %q", tasksOf(uses))
	}
	path := filepath.Join(n.groups, dir)
	want := Use{
		Alloc: "00000000-aaaa-bbbb-cccc-0123456789ab", Task: "web",
		Cgroups:    Cgroups{Unified: true, CPU: path, CPUAcct: path, Memory: path, IO: path, Freezer: path},
		CPUPercent: 150, ThrottledPercent: 50,
		MemoryMB: 3, WorkingSetMB: 2, MemoryLimitMB: 1000,
		ReadMBps: 3, WriteMBps: 1, ReadIOPS: 6, WriteIOPS: 3,
		CPUPressurePercent: 25, MemoryPressurePercent: 0, IOPressurePercent: 0, OOMKills: 2,
	}
	if uses[0] != want {
		t.Errorf("got  %+v\nwant %+v", uses[0], want)
	}
}

// separateTask makes a task's groups of version 1. The controllers that are not
// named have none.
func (n *node) separateTask(path string, pid int, controllers ...string) {
	for _, controller := range controllers {
		dir := filepath.Join(controller, path)
		n.file(n.groups, dir+"/cgroup.procs", fmt.Sprintf("%d\n", pid))
		for name, text := range map[string]map[string]string{
			"cpuacct": {"cpuacct.usage": "1000000000\n"},
			"cpu":     {"cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n"},
			"memory": {
				"memory.usage_in_bytes": "3145728\n", "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
				"memory.stat": "cache 1\ninactive_file 3\nhierarchical_memory_limit 9223372036854771712\ntotal_inactive_file 1048576\n",
			},
			"blkio": {
				"blkio.throttle.io_service_bytes_recursive": "254:0 Read 1048576\n254:0 Write 0\n254:0 Sync 9\nTotal 1048576\n",
				"blkio.throttle.io_serviced_recursive":      "Total 0\n",
			},
		}[controller] {
			n.file(n.groups, filepath.Join(dir, name), text)
		}
	}
}

// newSeparateNode has control groups of version 1, with the unified hierarchy
// beside them.
func newSeparateNode(t testing.TB) *node {
	n := newNode(t)
	if err := os.Remove(filepath.Join(n.groups, "cgroup.controllers")); err != nil {
		t.Fatal(err)
	}
	n.dirs(n.groups, "cpu", "cpuacct", "memory", "blkio", "freezer", "pids")
	n.file(n.groups, "unified/cgroup.controllers", "hugetlb\n")
	return n
}

func TestUses_OnSeparateHierarchies(t *testing.T) {
	n := newSeparateNode(t)
	path := "docker/" + strings.Repeat("ab", 32)
	n.separateTask(path, 77, "cpu", "cpuacct", "memory", "blkio", "freezer")
	n.container(77, 0, "db")
	w := watchOf(t, n)
	if layout, err := w.Groups(); err != nil || !strings.Contains(layout, "hybrid") || !strings.Contains(layout, "cpu, cpuacct, memory, blkio, freezer") {
		t.Errorf("layout is %q, %v", layout, err)
	}
	w.after(time.Second)
	n.file(n.groups, "cpuacct/"+path+"/cpuacct.usage", "1250000000\n")
	n.file(n.groups, "cpu/"+path+"/cpu.stat", "nr_periods 10\nnr_throttled 10\nthrottled_time 7\n")
	n.file(n.groups, "blkio/"+path+"/blkio.throttle.io_service_bytes_recursive", "254:0 Read 3145728\n254:0 Write 1048576\n254:16 Read 1048576\nTotal 5242880\n")
	n.file(n.groups, "blkio/"+path+"/blkio.throttle.io_serviced_recursive", "254:0 Read 5\n254:0 Write 2\nTotal 7\n")
	uses := w.after(time.Second)
	if len(uses) != 1 {
		t.Fatalf("tasks are %q", tasksOf(uses))
	}
	got := uses[0]
	if got.Alloc != "00000000-aaaa-bbbb-cccc-0123456789ab" || got.Task != "db" || got.Cgroups.IO != filepath.Join(n.groups, "blkio", path) || got.Cgroups.Unified {
		t.Errorf("got %+v", got)
	}
	if got.CPUPercent != 25 || got.ThrottledPercent != 100 || got.MemoryMB != 3 || got.WorkingSetMB != 2 || !math.IsInf(got.MemoryLimitMB, 1) ||
		got.ReadMBps != 3 || got.WriteMBps != 1 || got.ReadIOPS != 5 || got.WriteIOPS != 2 || got.OOMKills != 4 || !math.IsNaN(got.CPUPressurePercent) {
		t.Errorf("got %+v", got)
	}
}

// Nomad's and PSG's own executors make no group that counts CPU time where the
// cpuacct hierarchy is apart, nor one for block devices.
func TestUses_OfProcessesWhereNoGroupCounts(t *testing.T) {
	n := newSeparateNode(t)
	n.separateTask("nomad/"+allocOf(0)+".batch", 80, "cpu", "memory", "freezer")
	n.file(n.groups, "freezer/nomad/"+allocOf(0)+".batch/cgroup.procs", "80\n81\n")
	stat := func(pid, ticks, children int) {
		n.write(fmt.Sprintf("%d/stat", pid), fmt.Sprintf("%d (a ) S 1) R 1 2 3 4 5 6 7 8 9 10 %d 0 %d 0 20 0 1\n", pid, ticks, children))
	}
	stat(80, 100, 0)
	stat(81, 500, 0)
	n.write("80/io", "rchar: 1\nwchar: 1\nread_bytes: 0\nwrite_bytes: 1048576\ncancelled_write_bytes: 0\n")
	n.write("81/io", "rchar: 1\nwchar: 1\nread_bytes: 0\nwrite_bytes: 0\n")
	w := watchOf(t, n)
	w.after(time.Second)
	stat(80, 130, 0)
	stat(81, 520, 0)
	n.write("80/io", "read_bytes: 0\nwrite_bytes: 3145728\n")
	if u := w.after(time.Second)[0]; u.CPUPercent != 50 || u.WriteMBps != 2 || u.ReadMBps != 0 || !math.IsNaN(u.WriteIOPS) {
		t.Errorf("got %+v", u)
	}
	// The second process ends; its parent waits for it only later.
	n.remove("81/stat")
	n.file(n.groups, "freezer/nomad/"+allocOf(0)+".batch/cgroup.procs", "80\n")
	if u := w.after(time.Second)[0]; u.CPUPercent != 0 {
		t.Errorf("CPU is %v while the kernel counts the process nowhere", u.CPUPercent)
	}
	stat(80, 150, 520)
	if u := w.after(time.Second)[0]; u.CPUPercent != 20 {
		t.Errorf("CPU is %v, want 20: what the child used before is not used again", u.CPUPercent)
	}
}

func TestUses_TakesUpGroupsThatAreMadeLater(t *testing.T) {
	n := newSeparateNode(t)
	path := "nomad/" + allocOf(0) + ".batch"
	n.separateTask(path, 80, "cpu", "memory", "freezer")
	n.write("80/stat", "80 (a) R 1 2 3 4 5 6 7 8 9 10 700 0 0 0 20 0 1\n")
	n.write("80/io", "read_bytes: 0\nwrite_bytes: 1048576000\n")
	w := watchOf(t, n)
	w.after(time.Second)
	n.separateTask(path, 80, "cpuacct", "blkio")
	for range 2 * busyLook / time.Second { // two readings of the new files
		w.after(time.Second)
	}
	n.file(n.groups, "cpuacct/"+path+"/cpuacct.usage", "1500000000\n")
	u := w.after(time.Second)[0]
	if u.Cgroups.CPUAcct != filepath.Join(n.groups, "cpuacct", path) || u.CPUPercent != 50 || u.WriteMBps != 0 || u.ReadIOPS != 0 {
		t.Errorf("got %+v", u)
	}
}

func TestUses_IgnoresWhatIsNoTasks(t *testing.T) {
	n := newNode(t)
	n.unifiedGroup("system.slice/sshd.service", 50)
	n.write("50/environ", "PATH=/bin\x00")
	n.unifiedGroup("system.slice/unreadable.service", 51)
	n.unifiedGroup("system.slice/torn.service", 52)
	n.write("52/environ", "NOMAD_ALLOC_ID="+allocOf(9)) // cut off
	// A killed Nomad leaves groups behind.
	left := n.unifiedTask("left")
	n.file(n.groups, left+"/cgroup.procs", "")
	n.file(n.groups, left+"/cgroup.events", "populated 0\nfrozen 0\n")
	n.unifiedTask("web")
	n.unifiedGroup("system.slice/docker-"+strings.Repeat("0", 64)+".scope", 60)
	n.container(60, 5, "db")
	n.unifiedGroup("system.slice/docker-"+strings.Repeat("0", 64)+".scope/inner", 61) // part of the container
	n.container(61, 5, "db")
	n.unifiedGroup("user.slice/liar.scope", 62) // says that it is of another's allocation
	n.write("62/environ", "NOMAD_ALLOC_ID="+allocOf(1)+"\x00NOMAD_TASK_NAME=db\x00")
	w := watchOf(t, n)
	if got := tasksOf(w.Uses()); got != "1/web 5/db" {
		t.Errorf("tasks are %q", got)
	}
}

func TestUses_FollowsTasksThatComeAndGo(t *testing.T) {
	n := newNode(t)
	first := n.unifiedTask("web")
	w := watchOf(t, n)
	second := n.unifiedTask("db")
	n.file(n.groups, second+"/cgroup.procs", "") // made, but not entered yet
	n.file(n.groups, second+"/cgroup.events", "populated 0\n")
	if got := tasksOf(w.after(time.Second)); got != "0/web" {
		t.Errorf("tasks are %q", got)
	}
	n.file(n.groups, second+"/cgroup.procs", "99\n")
	if got := tasksOf(w.after(time.Second)); got != "0/web 1/db" {
		t.Errorf("tasks are %q", got)
	}
	if err := os.RemoveAll(filepath.Join(n.groups, first)); err != nil {
		t.Fatal(err)
	}
	if got := tasksOf(w.after(time.Second)); got != "1/db" {
		t.Errorf("tasks are %q", got)
	}
	n.file(n.groups, second+"/cgroup.procs", "")
	if got := tasksOf(w.after(busyLook)); got != "" {
		t.Errorf("tasks are %q after the last process ended", got)
	}
}

func TestUses_UnknownWhereTheKernelHasNoFile(t *testing.T) {
	n := newNode(t)
	dir := n.unifiedTask("web")
	for _, name := range []string{"memory.current", "io.stat", "cpu.pressure", "memory.events"} {
		if err := os.Remove(filepath.Join(n.groups, dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	n.file(n.groups, dir+"/memory.pressure", "what\n")
	var logged strings.Builder
	c := collectorOf(t, n, slog.New(slog.NewTextHandler(&logged, nil)))
	for i := range 20 {
		n.file(n.groups, dir+"/cpu.stat", fmt.Sprintf("usage_usec %d\n", 1_000_000+200_000*i))
		c.Collect(time.Unix(100, 0).Add(time.Duration(i) * time.Second))
	}
	u := c.Uses()[0]
	for name, v := range map[string]float64{
		"memory": u.MemoryMB, "working set": u.WorkingSetMB, "reads": u.ReadMBps,
		"CPU pressure": u.CPUPressurePercent, "memory pressure": u.MemoryPressurePercent, "throttled": u.ThrottledPercent,
	} {
		if !math.IsNaN(v) {
			t.Errorf("%s is %v", name, v)
		}
	}
	if math.Abs(u.CPUPercent-20) > 1e-9 || u.IOPressurePercent != 0 {
		t.Errorf("what can be read is %v, %v", u.CPUPercent, u.IOPressurePercent)
	}
	if got := strings.Count(logged.String(), "memory.pressure"); got != 1 || strings.Contains(logged.String(), "io.stat") {
		t.Errorf("logged\n%s", &logged)
	}
}

func TestUses_NoControlGroupsIsToldOnce(t *testing.T) {
	n := newNode(t)
	if err := os.RemoveAll(n.groups); err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	c := collectorOf(t, n, slog.New(slog.NewTextHandler(&logged, nil)))
	for i := range 20 {
		c.Collect(time.Unix(int64(100+i), 0))
	}
	if got := strings.Count(logged.String(), "no control groups below"); got != 1 {
		t.Errorf("told %d times:\n%s", got, &logged)
	}
	if _, ok := c.Last("memory_used_mb"); !ok {
		t.Error("the node is not measured")
	}
}
