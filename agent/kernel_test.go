package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// kernelGroup makes a control group of the real kernel on one hierarchy, and
// removes it when the test ends. Without the permission the test is skipped.
func kernelGroup(t testing.TB, root, path string) string {
	t.Helper()
	dir := filepath.Join(root, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Skipf("SKIPPED: this test needs root and control groups at %s: %v", root, err)
	}
	t.Cleanup(func() {
		for d := dir; d != root; d = filepath.Dir(d) {
			deadline := time.Now().Add(5 * time.Second)
			for err := os.Remove(d); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(d) {
				<-time.After(10 * time.Millisecond) // the kernel has not done with a process
			}
		}
	})
	return dir
}

// runIn runs a command in control groups, and kills it when the test ends.
func runIn(t testing.TB, dirs []string, command ...string) {
	t.Helper()
	// It begins when it is in its groups, so that its memory is charged there.
	cmd := exec.Command("sh", append([]string{"-c", `read -r _; exec "$@"`, "sh"}, command...)...)
	start, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(fmt.Sprint(cmd.Process.Pid)), 0o644); err != nil {
			t.Skipf("SKIPPED: this test needs to move processes between control groups: %v", err)
		}
	}
	if _, err := start.Write([]byte{'\n'}); err != nil {
		t.Fatal(err)
	}
}

const spin = "x=$(printf %03000000d 0); while :; do :; done"

// until collects until the one task with this name is as wanted.
func until(t *testing.T, c *Collector, task string, wanted func(Use) bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last []Use
	for range 50 {
		c.Collect(<-tick.C)
		last = last[:0]
		for _, u := range c.Uses() {
			if u.Task == task {
				last = append(last, u)
			}
		}
		if len(last) == 1 && wanted(last[0]) {
			return
		}
	}
	t.Fatalf("after 10 s the uses of %s are %+v", task, last)
}

func TestKernel_MeasuresATaskOnSeparateHierarchies(t *testing.T) {
	const root = "/sys/fs/cgroup"
	h := hierarchyAt(root)
	if h.unified || h.cpu == "" || h.memory == "" || h.frozen == "" {
		t.Skipf("SKIPPED: control groups are %s, not separate", h)
	}
	for name, controllers := range map[string][]string{
		"counted":   {h.cpu, h.cpuAcct, h.memory, h.io, h.frozen},
		"processes": {h.cpu, h.memory, h.frozen}, // as Nomad makes them
	} {
		t.Run(name, func(t *testing.T) {
			path := fmt.Sprintf("psg-test-agent-%d/%s.%s", os.Getpid(), allocOf(1), name)
			var dirs []string
			for _, controller := range controllers {
				dirs = append(dirs, kernelGroup(t, controller, path))
			}
			// So small that it is used up on the busiest machine.
			if err := os.WriteFile(filepath.Join(dirs[0], "cpu.cfs_quota_us"), []byte("5000"), 0o644); err != nil {
				t.Fatal(err)
			}
			runIn(t, dirs, "sh", "-c", spin)
			c := NewCollector(Config{Cgroup: root, Log: slog.New(slog.DiscardHandler)}, nil)
			defer c.Close()
			until(t, c, name, func(u Use) bool {
				return u.CPUPercent > 0 && u.CPUPercent < 50 && u.ThrottledPercent > 0 && u.MemoryMB > 0 && u.WorkingSetMB > 0 &&
					math.IsInf(u.MemoryLimitMB, 1) && u.ReadMBps >= 0 && u.Cgroups.CPU == dirs[0]
			})
		})
	}
}

// The unified hierarchy beside separate ones has no controllers here, but the
// kernel counts CPU time and pressure on it all the same.
func TestKernel_MeasuresATaskOnTheUnifiedHierarchy(t *testing.T) {
	t.Parallel()
	root := "/sys/fs/cgroup"
	if !exists(filepath.Join(root, "cgroup.controllers")) {
		root = filepath.Join(root, "unified")
	}
	if !exists(filepath.Join(root, "cpu.pressure")) {
		t.Skipf("SKIPPED: no unified hierarchy with pressure at %s", root)
	}
	path := fmt.Sprintf("psg-test-agent-%d/%s.unified.scope", os.Getpid(), allocOf(2))
	dir := kernelGroup(t, root, path)
	for range runtime.NumCPU() + 1 { // so that they have to wait for each other
		runIn(t, []string{dir}, "sh", "-c", spin)
	}
	c := NewCollector(Config{Cgroup: root, Log: slog.New(slog.DiscardHandler)}, nil)
	defer c.Close()
	until(t, c, "unified", func(u Use) bool {
		return u.CPUPercent > 0 && u.CPUPressurePercent > 0 && u.Cgroups.CPU == dir
	})
}

// A container's group says nothing of its owner; its process's environment does, and
// what Nomad has mounted there vouches for it.
func TestKernel_FindsTheOwnerOfAContainer(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("unshare"); err != nil || os.Getuid() != 0 {
		t.Skipf("SKIPPED: no mounts of one's own: %v", err)
	}
	h := hierarchyAt("/sys/fs/cgroup")
	if h.walked() == "" {
		t.Skipf("SKIPPED: control groups are %s", h)
	}
	dir := kernelGroup(t, h.walked(), fmt.Sprintf("psg-test-agent-%d-docker/0123456789abcdef", os.Getpid()))
	shared, mounted := filepath.Join(t.TempDir(), "alloc", allocOf(3), "alloc"), t.TempDir()
	if err := os.MkdirAll(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	runIn(t, []string{dir}, "unshare", "--mount", "sh", "-c",
		`mount --bind "$0" "$1" && exec env -i NOMAD_TASK_NAME=container NOMAD_ALLOC_ID="$2" sleep 60`, shared, mounted, allocOf(3))
	c := NewCollector(Config{Cgroup: "/sys/fs/cgroup", Log: slog.New(slog.DiscardHandler)}, nil)
	defer c.Close()
	until(t, c, "container", func(u Use) bool { return string(u.Alloc) == allocOf(3) })
}
