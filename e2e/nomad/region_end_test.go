package nomad_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// clear ends what Nomad's agents, which have ended, left running and mounted below
// the region's directory: plugins, executors and log collectors, and everything of
// the dead, which nobody could tell to end it. What else PSG has left stays, and is
// found later.
func (r *region) clear(dead []*e2e.Agent) error {
	left := func() []string {
		left := slices.DeleteFunc(e2e.Leftovers(r.dir+"/"), func(process string) bool { return !ofNomad(process) })
		for _, a := range dead {
			left = append(left, e2e.Leftovers(a.Dir+"/")...)
		}
		return left
	}
	return errors.Join(endAll(left), e2e.Remove(r.dir))
}

// dead are the clients that do not run.
func (r *region) dead() []*e2e.Agent {
	return slices.DeleteFunc(slices.Clone(r.clients), func(a *e2e.Agent) bool { return a.Running() })
}

// ofNomad reports whether Nomad started a process and would have ended it: a
// plugin, or an executor or log collector of its own.
func ofNomad(process string) bool {
	_, command, _ := strings.Cut(strings.TrimSpace(process), " ")
	args := strings.Fields(command)
	if len(args) == 0 {
		return false
	}
	if filepath.Base(args[0]) == "nomad" {
		return len(args) > 1 && args[1] != "agent"
	}
	return filepath.Base(filepath.Dir(args[0])) == "plugins" && !slices.Contains(args, "executor")
}

// endAll ends the processes of a list, each "PID COMMAND", until it is empty.
func endAll(list func() []string) error {
	return e2e.Until(context.Background(), 10*time.Second, "what was left has ended", func() (bool, error) {
		left := list()
		for _, process := range left {
			var pid int
			if _, err := fmt.Sscan(process, &pid); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
			}
		}
		return len(left) == 0, fmt.Errorf("left running:\n%s", strings.Join(left, "\n"))
	})
}

// asReaper, in the environment, has this program end what is left of a directory
// once whoever started it has died.
const asReaper = "PSG_E2E_REAPS"

// startReaper starts one, in a session of its own: neither a test that takes too
// long nor an interrupt leaves programs behind. done lets it go.
func startReaper(dir string) (done func() error, err error) {
	alive, holds, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer alive.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, errors.Join(err, holds.Close())
	}
	reaper := exec.Command(self)
	reaper.Env = append(os.Environ(), asReaper+"="+dir)
	reaper.Stdin = alive
	reaper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := reaper.Start(); err != nil {
		return nil, errors.Join(err, holds.Close())
	}
	return func() error { return errors.Join(holds.Close(), reaper.Wait()) }, nil
}

// runReaper waits until its standard input ends, which nobody else has the other
// end of, and ends what is left.
func runReaper(dir string) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	_, _ = os.Stdin.Read(make([]byte, 1))
	err := endAll(func() []string { return e2e.Leftovers(dir) })
	if _, gone := os.Stat(dir); gone == nil {
		err = errors.Join(err, e2e.Remove(dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAIL:", err)
		return 1
	}
	return 0
}

func TestReaper_EndsWhatIsLeftOfADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "region")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	done, err := startReaper(dir)
	if err != nil {
		t.Fatal(err)
	}
	orphan := exec.Command("sleep", "3600")
	orphan.Dir = dir
	if err := orphan.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	if err := done(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the orphan ended by itself")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

func TestRegion_EndsWhatAKilledNomadLeaves(t *testing.T) {
	nomadBinary(t)
	dir, err := os.MkdirTemp(shared.dir, "left-")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRegion(dir, layout{quick: true, nodes: []node{{cpu: 4000, memory: 4000, class: "a"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.start(t.Context()); err != nil {
		t.Error(errors.Join(err, r.end()))
		return
	}
	g := r.on(t)
	g.register(sleeper("web", 1, 100, 64))
	g.until(time.Minute, "it runs", func() bool { return len(g.runningOn("web")) == 1 })
	if err := r.clients[0].Kill(); err != nil {
		t.Error(err)
	}
	if left := e2e.Leftovers(dir + "/client"); len(left) < 4 || !mounted(t, dir+"/client") {
		t.Errorf("the killed client has left too little for this to test anything: %q", left)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
	if left := e2e.Leftovers(dir + "/"); len(left) > 0 {
		t.Errorf("left running:\n%s", strings.Join(left, "\n"))
	}
	if mounted(t, dir+"/") {
		t.Error("something is left mounted")
	}
}

// mounted reports whether something is, below a directory.
func mounted(t *testing.T, dir string) bool {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(mounts), dir)
}
