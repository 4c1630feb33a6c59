package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	callLimit   = 5 * time.Second  // for an executor on this machine to answer
	startLimit  = 20 * time.Second // for a command to start, log readers included
	pollPause   = 10 * time.Millisecond
	lostMessage = "the executor died: how the command ended is not known"
)

// ErrNoCommand says that a directory never ran a command.
var ErrNoCommand = errors.New("no command was started")

// Process is a command that was started, by this process or an earlier one.
// Its methods may be called at the same time.
type Process struct {
	Started Started
	dir     string
	child   *exec.Cmd // the executor, to be reaped; nil after Attach
}

// Start runs a command through an executor, which is launched as
// launcher[0] launcher[1:]… dir and must enter Main. The executor outlives this
// process. Start returns once the command runs; an error says that it does not
// and never will from this directory, unless ctx ended.
func Start(ctx context.Context, launcher []string, dir string, spec Spec) (*Process, error) {
	input, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	answer, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	cmd := exec.Command(launcher[0], append(launcher[1:len(launcher):len(launcher)], dir)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), log, log
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	theirs.Close()
	log.Close()
	if err != nil {
		return nil, fmt.Errorf("launch executor: %w", err)
	}
	result, err := readStart(ctx, answer)
	if err != nil {
		// Without an answer nobody knows what runs: end it for certain.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("executor did not answer: %w%s", err, logTail(dir))
	}
	if result.Error != "" {
		_ = cmd.Wait()
		return nil, errors.New(result.Error)
	}
	return &Process{Started: result.Started, dir: dir, child: cmd}, nil
}

func readStart(ctx context.Context, answer *os.File) (started, error) {
	if err := answer.SetReadDeadline(time.Now().Add(startLimit)); err != nil {
		return started{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = answer.SetReadDeadline(time.Now()) })()
	var result started
	if err := json.NewDecoder(answer).Decode(&result); err != nil {
		return started{}, err
	}
	return result, nil
}

// logTail is the end of what an executor wrote before it died.
func logTail(dir string) string {
	data, err := os.ReadFile(filepath.Join(dir, logFile))
	data = bytes.TrimSpace(data[max(0, len(data)-300):])
	if err != nil || len(data) == 0 {
		return ""
	}
	return ": " + string(data)
}

// Attach finds the command of a directory, whether it runs, is over or was
// lost. It is ErrNoCommand where none was started.
func Attach(dir string) (*Process, error) {
	// The executor lets go of the lock last: looked at first, what it wrote
	// before is seen.
	live, err := alive(dir)
	if err != nil {
		return nil, err
	}
	s, ok, err := readStarted(dir)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return &Process{Started: s, dir: dir}, nil
	case live:
		return nil, fmt.Errorf("executor in %s has not started its command yet", dir)
	}
	_, err = os.Stat(filepath.Join(dir, startingFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoCommand
	case err != nil:
		return nil, err
	}
	return &Process{dir: dir}, nil
}

// Wait returns how the command ended, once it has, or ctx's error.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	for {
		if exit, ok, err := ReadExit(p.dir); ok || err != nil {
			p.reap(ok)
			return exit, err
		}
		p.watch(ctx)
		if err := ctx.Err(); err != nil {
			return Exit{}, err
		}
		if exit, ok, err := p.lost(); ok || err != nil {
			p.reap(true)
			return exit, err
		}
	}
}

// watch returns when the executor closes the connection, or after a short pause
// where none can be had.
func (p *Process) watch(ctx context.Context) {
	conn, err := dial(p.dir)
	if err != nil {
		select {
		case <-ctx.Done():
		case <-time.After(pollPause):
		}
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if json.NewEncoder(conn).Encode(request{Op: "wait"}) == nil {
		_, _ = io.Copy(io.Discard, conn)
	}
}

// lost settles a command whose executor died without recording an exit: what
// is left of it is killed, and that is recorded.
func (p *Process) lost() (Exit, bool, error) {
	live, err := alive(p.dir)
	if live || err != nil {
		return Exit{}, false, err
	}
	// It may have recorded the exit between our two looks.
	if exit, ok, err := ReadExit(p.dir); ok || err != nil {
		return exit, ok, err
	}
	if p.Started.PID != 0 { // else the kernel killed it with its executor
		killSession(p.Started)
	}
	exit := Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), Error: lostMessage, At: time.Now()}
	return exit, true, WriteExit(p.dir, exit)
}

// reap collects an executor that this process started.
func (p *Process) reap(over bool) {
	if over && p.child != nil {
		_ = p.child.Wait() // its exit code says nothing; exit.json does
	}
}

// Signal sends a signal to the command's first process.
func (p *Process) Signal(sig syscall.Signal) error {
	return call(p.dir, request{Op: "signal", Signal: int(sig)}, callLimit)
}

// Stop asks the executor to end the command: sig to its whole process group
// now, SIGKILL after timeout. It returns at once; Wait tells the end. A command
// that is over already is no error.
func (p *Process) Stop(sig syscall.Signal, timeout time.Duration) error {
	err := call(p.dir, request{Op: "stop", Signal: int(sig), Timeout: timeout}, callLimit)
	if err == nil {
		return nil
	}
	if live, lockErr := alive(p.dir); lockErr == nil && !live {
		return nil
	}
	return fmt.Errorf("stop: %w", err)
}
