package footprint

import (
	"errors"
	"fmt"
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

// startWorkloads makes control groups as Nomad makes them, each with a process
// that sleeps, until the test ends.
func startWorkloads(t *testing.T, count int) {
	t.Helper()
	parent := fmt.Sprintf("psg-test-footprint-%d", os.Getpid())
	roots := []string{cgroupRoot}
	suffix := ".scope"
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err != nil {
		suffix, roots = "", nil
		for controller := range strings.SplitSeq(*controllers, ",") {
			roots = append(roots, filepath.Join(cgroupRoot, controller))
		}
	}
	for _, root := range roots {
		makeGroup(t, filepath.Join(root, parent))
		// Where controllers are not inherited; elsewhere there is no such file.
		_ = os.WriteFile(filepath.Join(root, parent, "cgroup.subtree_control"), []byte("+cpu +memory +io"), 0o644)
	}
	for i := range count {
		sleep := exec.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		for _, root := range roots {
			dir := filepath.Join(root, parent, fmt.Sprintf("%08x-aaaa-bbbb-cccc-0123456789ab.main%s", i, suffix))
			makeGroup(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { // before its groups are removed
			_ = sleep.Process.Kill()
			_ = sleep.Wait()
		})
	}
}

func makeGroup(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("SKIPPED: this needs root and control groups at %s: %v", cgroupRoot, err)
	}
	t.Cleanup(func() {
		deadline := time.Now().Add(5 * time.Second)
		for err := os.Remove(dir); errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline); err = os.Remove(dir) {
			<-time.After(10 * time.Millisecond) // the kernel has not done with a process
		}
	})
}
