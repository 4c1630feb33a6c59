package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Process is a program that this process started and that it must end.
type Process struct {
	cmd    *exec.Cmd
	output string          // file
	ended  context.Context // ends with it
}

// start runs a program in its own process group, so that an interrupt at the
// terminal is the starter's to hand on. Should the starter die without ending
// it, the kernel sends it the signal last.
func start(path string, args, env []string, output string, last syscall.Signal) (*Process, error) {
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	ended, end := context.WithCancelCause(context.Background())
	p := &Process{cmd: exec.Command(path, args...), output: output, ended: ended}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = env, file, file
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
	if err := p.cmd.Start(); err != nil {
		end(err)
		return nil, err
	}
	go func() { end(fmt.Errorf("%s ended: %v", filepath.Base(path), p.cmd.Wait())) }()
	return p, nil
}

// PID is the process's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool { return p != nil && p.ended.Err() == nil }

// Stop sends a signal and waits for the end, with SIGKILL after limit, which is
// that of an idle machine.
func (p *Process) Stop(signal syscall.Signal, limit time.Duration) error {
	err := p.cmd.Process.Signal(signal)
	if errors.Is(err, os.ErrProcessDone) {
		<-p.ended.Done()
		return nil
	}
	select {
	case <-p.ended.Done():
		return err
	case <-time.After(limit * patience):
		err = fmt.Errorf("%s did not end %s after %s", filepath.Base(p.cmd.Path), limit*patience, signal)
		err = errors.Join(err, p.cmd.Process.Kill())
		<-p.ended.Done()
		return err
	}
}

// until is Until for what the process must bring about: not once it has ended.
func (p *Process) until(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.ended, func() { cancel(context.Cause(p.ended)) })()
	if err := Until(ctx, limit, what, done); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Output())
	}
	return nil
}

// Output is the last of what the process printed.
func (p *Process) Output() string {
	if p == nil {
		return "(never started)"
	}
	const most = 16 << 10
	data, err := os.ReadFile(p.output)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// Children returns the child processes whose program has a name and that were
// started without arguments.
func (p *Process) Children(name string) []int {
	var found []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// The name, in parentheses, may hold anything; the parent is the second
		// field after it.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		command, err := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		if err != nil || len(fields) < 2 || fields[1] != strconv.Itoa(p.PID()) {
			continue
		}
		args := strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && len(args) == 1 && filepath.Base(args[0]) == name {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// Leftovers lists the processes that run a program of dir, work below it or
// have it in their command line.
func Leftovers(dir string) []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if filepath.Base(process) == strconv.Itoa(os.Getpid()) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(process, "cmdline"))
		program, _ := os.Readlink(filepath.Join(process, "exe"))
		work, _ := os.Readlink(filepath.Join(process, "cwd"))
		if strings.Contains(string(command), dir) || strings.HasPrefix(program, dir) || strings.HasPrefix(work, dir) {
			found = append(found, filepath.Base(process)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// Remove removes a directory, and first what a Nomad that was killed left mounted
// below it.
func Remove(dir string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			if err := syscall.Unmount(fields[4], syscall.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", fields[4], err)
			}
		}
	}
	return os.RemoveAll(dir)
}

// patience is by how much a machine may be slower than the limits suppose, which
// are those of an idle one: a slow machine is no fault.
const patience = 4

// Until polls until done, or fails with what was waited for. The limit is how long
// it may take on an idle machine.
func Until(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	limit *= patience
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, err := done()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", what, context.Cause(ctx)), err)
		case <-poll.C:
		}
	}
}
