package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"

	"github.com/psgrid/psg/driver/executor"
)

// outputLimit bounds what Exec keeps of each stream; the rest is dropped.
const outputLimit = 1 << 20

// Session is a command to run beside a task's, with its streams.
type Session struct {
	Command []string
	TTY     bool      // Stdout then carries both streams
	Stdin   io.Reader // nil means none
	Stdout  io.Writer
	Stderr  io.Writer
	Resize  <-chan Size // sizes of the terminal; closed when no more come
}

// Size is that of a terminal, in characters.
type Size struct{ Rows, Columns uint16 }

// Exec runs a command beside a task's, as its user, in its environment,
// directory and control groups. It is killed, its whole process group, when
// timeout has passed; 0 means no timeout.
func (d *Driver) Exec(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, exit executor.Exit, err error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	out, errs := &capped{}, &capped{}
	exit, err = d.ExecSession(ctx, id, Session{Command: command, Stdout: out, Stderr: errs})
	return out.Bytes(), errs.Bytes(), exit, err
}

// capped keeps the beginning of what is written to it.
type capped struct{ bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	c.Buffer.Write(p[:min(len(p), max(0, outputLimit-c.Len()))])
	return len(p), nil
}

// ExecSession runs a command beside a task's with streams, and a terminal if
// wanted. It ends with ctx, the task or the driver, or by itself.
func (d *Driver) ExecSession(ctx context.Context, id string, s Session) (executor.Exit, error) {
	t, err := d.find(id)
	if err != nil {
		return executor.Exit{}, err
	}
	process, err := t.running()
	if err != nil {
		return executor.Exit{}, err
	}
	if len(s.Command) == 0 {
		return executor.Exit{}, errors.New("exec needs a command")
	}
	ctx, cancel := d.joined(ctx)
	defer cancel()
	defer context.AfterFunc(t.over, cancel)()
	cmd, err := t.beside(ctx, s.Command)
	if err != nil {
		return executor.Exit{}, err
	}
	start := func() error { return process.StartBeside(cmd, t.NetNS) }
	if s.TTY {
		err = runTerminal(cmd, s, start)
	} else {
		err = runPiped(cmd, s, start)
	}
	if cmd.ProcessState == nil {
		return executor.Exit{}, fmt.Errorf("exec %s: %w", s.Command[0], err)
	}
	return executor.ExitOf(cmd.ProcessState), nil
}

// beside prepares a command as the task's own is prepared.
func (t *task) beside(ctx context.Context, command []string) (*exec.Cmd, error) {
	like := t.Task
	like.Stanza.Command, like.Stanza.Args = command[0], command[1:]
	t.mu.Lock()
	granted := t.record.Granted
	t.mu.Unlock()
	spec, err := commandSpec(like, granted)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, spec.Path, spec.Args...)
	cmd.Env, cmd.Dir = spec.Env, spec.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Credential: spec.User.Credential()}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A grandchild that keeps the streams open must not keep the session.
	cmd.WaitDelay = time.Second
	return cmd, nil
}

func runPiped(cmd *exec.Cmd, s Session, start func() error) error {
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	if s.Stdin == nil {
		if err := start(); err != nil {
			return err
		}
		return cmd.Wait()
	}
	// exec's own copying would wait for the end of Stdin after the command's.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	go func() { // ends when the caller's stream does
		_, _ = io.Copy(stdin, s.Stdin)
		stdin.Close()
	}()
	return cmd.Wait()
}

func runTerminal(cmd *exec.Cmd, s Session, start func() error) error {
	master, slave, err := pty.Open()
	if err != nil {
		return fmt.Errorf("open terminal: %w", err)
	}
	defer master.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr.Setctty = true
	err = start()
	slave.Close()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	var helpers sync.WaitGroup
	helpers.Go(func() { resize(master, s.Resize, done) })
	helpers.Go(func() { _, _ = io.Copy(s.Stdout, master) }) // ends with EIO when the last process goes
	if s.Stdin != nil {
		go func() { _, _ = io.Copy(master, s.Stdin) }() // ends when the caller's stream does
	}
	err = cmd.Wait()
	close(done)
	if err := master.SetReadDeadline(time.Now().Add(cmd.WaitDelay)); err != nil {
		master.Close()
	}
	helpers.Wait()
	return err
}

func resize(terminal *os.File, sizes <-chan Size, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			// A size that the terminal refuses changes nothing else.
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Rows, Cols: size.Columns})
		}
	}
}
