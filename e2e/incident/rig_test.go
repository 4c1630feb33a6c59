package incident

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/e2e/cluster"
)

const (
	cgroups = "/sys/fs/cgroup"
	nodeID  = psg.NodeID("n1")
	// nodeMHz is what the node's CPUs are said to make; only shares of it matter.
	coreMHz = 2000
	// sharedMB is the memory that all tasks of the rig share.
	sharedMB = 256
	// weight is that of the rig as a whole against all else on the machine, of which
	// each process has 1024: the most there is, since what else runs is no part of
	// what is measured.
	weight = 256 * 1024
	// partWeight is that of the agent, and of the judge, beside the tasks, which have
	// what they ask for in MHz.
	partWeight = 1024
)

var controllers = []string{"cpu", "cpuacct", "memory", "blkio", "freezer"}

// rig is one node: control groups below a parent of its own, a bus, and an agent.
type rig struct {
	*testing.T
	parent string
	agents string // CPU group of the agent
	dir    string
	state  string // of the agent: in memory, as it is by default
	nats   *server.Server
	bus    *bus.Bus

	mu       sync.Mutex
	reports  []psg.Report
	sequence uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: control groups need root")
	}
	for _, c := range controllers {
		if _, err := os.Stat(filepath.Join(cgroups, c, "cgroup.procs")); err != nil {
			t.Skipf("SKIPPED: no control groups of version 1 here: %v", err)
		}
	}
	r := &rig{T: t, parent: fmt.Sprintf("psg-incident-%d", os.Getpid()), dir: t.TempDir(), state: memoryDir(t)}
	for _, c := range controllers {
		r.makeGroup(filepath.Join(cgroups, c, r.parent))
	}
	r.set(filepath.Join(cgroups, "cpu", r.parent, "cpu.shares"), weight)
	r.set(filepath.Join(cgroups, "memory", r.parent, "memory.limit_in_bytes"), sharedMB<<20)
	r.agents = r.part("agent")
	r.enter(r.part("judge"))
	var err error
	if r.nats, err = server.Start(server.Config{Dir: filepath.Join(r.dir, "nats"), Listen: "127.0.0.1:0"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.nats.Close)
	if r.bus, err = bus.Connect(bus.Config{URLs: []string{r.nats.ClientURL()}, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.bus.Close)
	r.listen()
	return r
}

// memoryDir is a directory on no disk, until the test ends.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "psg-incident-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// part makes a CPU group for what belongs to the rig and is no task.
func (r *rig) part(name string) string {
	r.Helper()
	dir := filepath.Join(cgroups, "cpu", r.parent, name)
	r.makeGroup(dir)
	r.set(filepath.Join(dir, "cpu.shares"), partWeight)
	return dir
}

// enter moves this process to a CPU group until the test ends.
func (r *rig) enter(dir string) {
	r.Helper()
	self := strconv.Itoa(os.Getpid())
	r.set(filepath.Join(dir, "cgroup.procs"), self)
	r.Cleanup(func() { r.set(filepath.Join(cgroups, "cpu", "cgroup.procs"), self) })
}

// listen keeps what the agent reports until the test ends.
func (r *rig) listen() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- r.bus.WatchReports(ctx, func(report psg.Report) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.reports = append(r.reports, report)
		})
	}()
	r.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			r.Error(err)
		}
	})
}

// reported are the reports so far that fit.
func (r *rig) reported(fits func(psg.Report) bool) []psg.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []psg.Report
	for _, report := range r.reports {
		if fits(report) {
			found = append(found, report)
		}
	}
	return found
}

func (r *rig) makeGroup(dir string) {
	r.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { r.removeGroup(dir) })
}

func (r *rig) removeGroup(dir string) {
	r.Helper()
	r.until(5*time.Second, dir+" is removed", func() bool {
		err := os.Remove(dir)
		return err == nil || errors.Is(err, os.ErrNotExist)
	})
}

func (r *rig) set(file string, value any) {
	r.Helper()
	if err := os.WriteFile(file, []byte(fmt.Sprint(value)), 0o644); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) get(t *task, controller, file string) string {
	r.Helper()
	data, err := os.ReadFile(filepath.Join(t.dirs[controller], file))
	if err != nil {
		r.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// until waits until done, four times the limit at most: that is an idle machine's.
func (r *rig) until(limit time.Duration, what string, done func() bool) {
	r.Helper()
	limit *= 4
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for late := time.After(limit); !done(); {
		select {
		case <-poll.C:
		case <-late:
			r.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// task is a process in control groups of its own, named as Nomad names them.
type task struct {
	alloc psg.AllocID
	cmd   *exec.Cmd
	dirs  map[string]string
	ended chan struct{}
	once  sync.Once
}

// start runs a program as a task that asks for some MHz.
func (r *rig) start(mhz int, env []string, args ...string) *task {
	r.Helper()
	t := &task{alloc: newAlloc(), dirs: map[string]string{}, ended: make(chan struct{})}
	script := ""
	for _, c := range controllers {
		t.dirs[c] = filepath.Join(cgroups, c, r.parent, string(t.alloc)+".main")
		if err := os.Mkdir(t.dirs[c], 0o755); err != nil {
			r.Fatal(err)
		}
		script += "echo $$ > " + t.dirs[c] + "/cgroup.procs && "
	}
	r.set(filepath.Join(t.dirs["cpu"], "cpu.shares"), mhz)
	t.cmd = exec.Command("sh", append([]string{"-c", script + `exec "$@"`, "sh"}, args...)...)
	t.cmd.Env = append(os.Environ(), env...)
	t.cmd.Stderr = os.Stderr
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.startOnThread(t.cmd); err != nil {
		r.Fatal(err)
	}
	go func() { defer close(t.ended); _ = t.cmd.Wait() }()
	r.Cleanup(func() { r.end(t) })
	return t
}

// startOnThread starts a process whose parent, for the kernel, is a thread that
// lasts: one that ends takes the process with it.
func (r *rig) startOnThread(cmd *exec.Cmd) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return cmd.Start()
}

// end kills a task, whatever state it is in, and removes its groups.
func (r *rig) end(t *task) {
	t.once.Do(func() {
		r.set(filepath.Join(t.dirs["freezer"], "freezer.state"), "THAWED")
		r.set(filepath.Join(t.dirs["cpu"], "cpu.cfs_quota_us"), -1)
		_ = t.cmd.Process.Kill()
		<-t.ended
		_ = os.WriteFile(filepath.Join(t.dirs["memory"], "memory.force_empty"), []byte("0"), 0o644)
		for _, dir := range t.dirs {
			r.removeGroup(dir)
		}
	})
}

// stop is a stock reschedule: SIGTERM, and SIGKILL after kill_timeout.
func (t *task) stop() {
	_ = t.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-t.ended:
	case <-time.After(killTimeout):
		_ = t.cmd.Process.Kill()
		<-t.ended
	}
}

const killTimeout = 5 * time.Second

func newAlloc() psg.AllocID {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return psg.AllocID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// agent is a real psg-agent process.
type agentProcess struct {
	cmd   *exec.Cmd
	ended chan error
}

const agentLog = "agent.log"

func (r *rig) startAgent(args ...string) *agentProcess { return r.startAgentAs(0, args...) }

func (r *rig) startAgentAs(user uint32, args ...string) *agentProcess {
	r.Helper()
	a := &agentProcess{ended: make(chan error, 1)}
	log, err := os.OpenFile(filepath.Join(r.dir, agentLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.Fatal(err)
	}
	defer log.Close()
	a.cmd = exec.Command("sh", append([]string{"-c", "echo $$ > " + r.agents + `/cgroup.procs; exec "$@"`, "sh", built.agent,
		"-node", string(nodeID), "-nats", r.nats.ClientURL(), "-state-dir", r.state,
	}, args...)...)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if user != 0 {
		a.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user, Gid: user}
	}
	if err := r.startOnThread(a.cmd); err != nil {
		r.Fatal(err)
	}
	go func() { a.ended <- a.cmd.Wait(); close(a.ended) }()
	r.Cleanup(func() {
		_ = r.endAgent(a, syscall.SIGTERM)
		if r.Failed() {
			r.Logf("the agent says:\n%s", r.agentSaid())
		}
	})
	return a
}

// agentSaid is the end of what the rig's agents have logged.
func (r *rig) agentSaid() []byte {
	text, _ := os.ReadFile(filepath.Join(r.dir, agentLog)) // without one there is nothing to show
	return text[max(0, len(text)-8000):]
}

func (r *rig) endAgent(a *agentProcess, with syscall.Signal) error {
	_ = a.cmd.Process.Signal(with)
	select {
	case err := <-a.ended:
		return err
	case <-time.After(15 * time.Second):
		_ = a.cmd.Process.Kill()
		<-a.ended
		return errors.New("the agent did not end")
	}
}

// order gives the agent one order, the next of its epoch.
func (r *rig) order(o psg.Order) psg.Order {
	r.Helper()
	r.sequence++
	if o.Sequence == 0 {
		o.Sequence = r.sequence
	}
	if o.Epoch == 0 {
		o.Epoch = 5
	}
	o.Node = nodeID
	if err := r.bus.PublishOrder(o); err != nil {
		r.Fatal(err)
	}
	return o
}

// carriedOut gives an order until the agent, which may have just started, reports
// on it, and returns the report.
func (r *rig) carriedOut(o psg.Order) psg.Report {
	r.Helper()
	o = r.order(o)
	var found []psg.Report
	again := time.Now().Add(time.Second)
	r.until(20*time.Second, fmt.Sprintf("a report on %s %d", o.Kind, o.Sequence), func() bool {
		if time.Now().After(again) {
			again = time.Now().Add(time.Second)
			_ = r.bus.PublishOrder(o)
		}
		found = r.reported(func(p psg.Report) bool {
			return p.Epoch == o.Epoch && p.Sequence == o.Sequence && p.Kind == o.Kind && !p.Unasked
		})
		return len(found) > 0
	})
	return found[0]
}

func freePort(t *testing.T) string {
	t.Helper()
	addresses, err := cluster.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	return port
}
