package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is the one command of an executor process.
type command struct {
	dir    string
	spec   Spec
	groups *groups
	cmd    *exec.Cmd

	killing sync.Mutex // one kill of the groups at a time: it freezes and thaws them
	barred  *os.File   // keeps visitors out from the first kill on

	mu    sync.Mutex // held while signalling, so that the pid is not reaped meanwhile
	ended bool       // the first process is dead: its pid must not be used
}

// arrange does all that may wait or fail before the command is started. It must
// be called on the thread that then calls start; release closes what it opened.
func (c *command) arrange() (release func(), err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readerLimit)
	defer cancel()
	stdout, stderr, err := openLogs(ctx, c.spec)
	if err != nil {
		return nil, err
	}
	release = func() { stdout.Close(); stderr.Close() } // the command has its own
	if err := enterNetwork(c.spec.NetNS); err != nil {
		release()
		return nil, err
	}
	c.groups = makeGroups(cgroupRoot, c.spec.Limits)
	c.cmd = &exec.Cmd{
		Path: c.spec.Path, Args: append([]string{c.spec.Path}, c.spec.Args...),
		Env: c.spec.Env, Dir: c.spec.Dir, Stdout: stdout, Stderr: stderr,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: c.spec.User.Credential()},
	}
	if c.cmd.Env == nil {
		c.cmd.Env = []string{} // nil would inherit
	}
	return release, nil
}

// about is what is known of the command before it runs.
func (c *command) about() Started {
	return Started{Boot: bootID(), Groups: c.groups.exclusive(), Made: c.groups.made(), Unapplied: c.groups.unapplied}
}

// start runs the command. It must be called on a thread that the caller keeps.
func (c *command) start() (Started, error) {
	if err := c.groups.startIn(c.cmd); err != nil {
		return Started{}, err
	}
	at := time.Now()
	stat, err := readStat(c.cmd.Process.Pid)
	if err != nil {
		return Started{}, errors.Join(err, c.cmd.Process.Kill(), c.cmd.Wait())
	}
	s := c.about()
	s.PID, s.Ticks, s.At = c.cmd.Process.Pid, stat.startTicks, at
	return s, nil
}

// Credential is the user as the kernel takes it; nil for nil.
func (u *User) Credential() *syscall.Credential {
	if u == nil {
		return nil
	}
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
}

// StartBeside starts another command in the network namespace and the control
// groups of p's.
func (p *Process) StartBeside(cmd *exec.Cmd, netNS string) error {
	started := make(chan error, 1)
	go func() {
		// Never unlocked: the thread ends with this goroutine, so that no other
		// one finds itself in the command's network or groups.
		runtime.LockOSThread()
		err := enterNetwork(netNS)
		if err == nil {
			err = p.startVisiting(cmd)
		}
		started <- err
	}()
	return <-started
}

func (p *Process) startVisiting(cmd *exec.Cmd) error {
	leave, err := visit(p.dir)
	if err != nil {
		return err
	}
	return errors.Join(groupsAt(cgroupRoot, p.Started.Groups).startIn(cmd), leave())
}

func enterNetwork(path string) error {
	if path == "" {
		return nil
	}
	ns, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer ns.Close()
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace %s: %w", path, err)
	}
	return nil
}

// wait returns how the command ended, after the rest of its process group and
// of its control groups is dead too.
func (c *command) wait() Exit {
	pid := c.cmd.Process.Pid
	for {
		// The process stays a zombie until the group is killed: its pid, which
		// names the group, can't be reused before.
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	oom := c.groups.oomKilled()
	c.mu.Lock()
	_ = syscall.Kill(-pid, syscall.SIGKILL)
	c.ended = true
	_ = c.cmd.Wait() // the status says more than its error
	c.mu.Unlock()
	c.killGroups()
	c.groups.remove()
	exit := ExitOf(c.cmd.ProcessState)
	exit.OOM = oom
	return exit
}

// signal sends a signal to the first process.
func (c *command) signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errors.New("the command is over")
	}
	return syscall.Kill(c.cmd.Process.Pid, sig)
}

// stop sends sig to the process group and SIGKILL after timeout.
func (c *command) stop(sig syscall.Signal, timeout time.Duration) {
	if timeout <= 0 {
		c.kill()
		return
	}
	c.signalGroup(sig)
	time.AfterFunc(timeout, c.kill)
}

func (c *command) kill() {
	c.signalGroup(syscall.SIGKILL)
	c.killGroups()
}

func (c *command) killGroups() {
	c.killing.Lock()
	defer c.killing.Unlock()
	if c.barred == nil {
		c.barred = bar(c.dir)
	}
	c.groups.kill()
}

func (c *command) signalGroup(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		// The only error is that nobody is left.
		_ = syscall.Kill(-c.cmd.Process.Pid, sig)
	}
}
