package hand

import (
	"errors"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// TestSignal_SparesWhoIsNotInTheGroup: between the list and the signal a process
// may end, and its number be another's.
func TestSignal_SparesWhoIsNotInTheGroup(t *testing.T) {
	inside, outside := exec.Command("sleep", "60"), exec.Command("sleep", "60")
	if err := errors.Join(inside.Start(), outside.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, c := range []*exec.Cmd{inside, outside} {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	held, err := hold([]int{inside.Process.Pid, outside.Process.Pid})
	defer held.release()
	if err != nil {
		t.Fatal(err)
	}
	g := Groups{Freezer: tree(t, map[string]string{"cgroup.procs": strconv.Itoa(inside.Process.Pid) + "\n"})}
	if err := held.signal(g, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	state, err := inside.Process.Wait()
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the one in the group: %v, %v", state, err)
	}
	if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the other one: %v", err)
	}
	if err := held.signal(g, syscall.SIGKILL); err != nil {
		t.Errorf("one that has ended, whose number may be another's: %v", err)
	}
}
