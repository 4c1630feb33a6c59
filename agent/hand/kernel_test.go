package hand

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// kernelGroups are real control groups with a busy process in them.
func kernelGroups(t *testing.T) (Groups, *exec.Cmd) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: control groups need root")
	}
	if _, err := os.Stat(filepath.Join(cgroupRoot, "freezer")); err != nil {
		t.Skip("SKIPPED: no control groups of version 1 here")
	}
	name := "psg-hand-test-" + strconv.Itoa(os.Getpid())
	dirs := map[string]string{}
	for _, controller := range []string{"cpu", "memory", "blkio", "freezer"} {
		dir := filepath.Join(cgroupRoot, controller, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
		t.Cleanup(func() {
			for range 200 {
				if err := os.Remove(dir); !errors.Is(err, syscall.EBUSY) {
					return
				}
				<-time.After(10 * time.Millisecond) // the kernel is not done with what ended
			}
			t.Errorf("%s is left", dir)
		})
		dirs[controller] = dir
	}
	busy := exec.Command("sh", "-c", "read line; trap 'exit 7' TERM; echo ready; while :; do :; done")
	in, err := busy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := busy.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		replace(t, filepath.Join(dir, "cgroup.procs"), strconv.Itoa(busy.Process.Pid))
	}
	t.Cleanup(func() { _ = busy.Process.Kill(); _ = busy.Wait() })
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	return Groups{CPU: dirs["cpu"], Memory: dirs["memory"], IO: dirs["blkio"], Freezer: dirs["freezer"]}, busy
}

func TestKernel_TakesAndGivesBackEveryLimit(t *testing.T) {
	g, busy := kernelGroups(t)
	devices, err := Devices("/sys")
	if err != nil || len(devices) == 0 {
		t.Skipf("SKIPPED: no block devices: %v", err)
	}
	h := Hand{Devices: devices[:1]}
	limit := everything
	limit.ReadBps, limit.WriteBps = 1<<20, 1<<20
	writes, err := h.Plan(g, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) != 7 {
		t.Errorf("planned %+v", writes)
	}
	for _, w := range writes {
		if err := Do(w); err != nil {
			t.Fatalf("%+v: %v", w, err)
		}
	}
	for _, w := range writes { // what is read back is what was written, so that Undo knows it
		eventually(t, "the kernel shows "+w.Now, func() bool { now, err := get(w.File, w.line()); return err == nil && now == w.Now })
	}
	if state := state(t, busy.Process.Pid); state == 'R' {
		t.Error("the frozen process runs")
	}
	for i := range writes {
		if err := Undo(writes[len(writes)-1-i]); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range writes {
		eventually(t, "the kernel shows "+w.Was, func() bool { now, err := get(w.File, w.line()); return err == nil && now == w.Was })
	}
	eventually(t, "the process runs again", func() bool { return state(t, busy.Process.Pid) == 'R' })
}

func TestKernel_SignalReachesEveryProcess(t *testing.T) {
	g, busy := kernelGroups(t)
	if pids, err := Processes(g); err != nil || len(pids) != 1 || pids[0] != busy.Process.Pid {
		t.Fatalf("processes %v, %v", pids, err)
	}
	if n, err := Signal(g, syscall.SIGTERM); err != nil || n != 1 {
		t.Fatalf("signalled %d, %v", n, err)
	}
	if err := busy.Wait(); busy.ProcessState.ExitCode() != 7 {
		t.Errorf("ended with %v", err)
	}
	if n, err := Signal(g, syscall.SIGKILL); err != nil || n != 0 {
		t.Errorf("signalled %d of none, %v", n, err)
	}
}

func TestSignal_SparesTheAgentItself(t *testing.T) {
	dir := tree(t, map[string]string{"cgroup.procs": strconv.Itoa(os.Getpid()) + "\n"})
	if _, err := Signal(Groups{Freezer: dir}, syscall.SIGKILL); !errors.Is(err, ErrOwn) {
		t.Errorf("Signal = %v, want that it is our own", err)
	}
	if n, err := Signal(Groups{Freezer: filepath.Join(dir, "gone")}, syscall.SIGKILL); err != nil || n != 0 {
		t.Errorf("a group that is gone: %d, %v", n, err)
	}
	if _, err := Signal(Groups{}, syscall.SIGKILL); !errors.Is(err, ErrNoGroup) {
		t.Errorf("no group: %v", err)
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for limit := time.After(5 * time.Second); !done(); {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// state is a process's, as the kernel shows it.
func state(t *testing.T, pid int) byte {
	t.Helper()
	file, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line[strings.LastIndexByte(line, ')')+2]
}
