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
	goneMessage = "the state directory of the command is gone: it was killed"
)

// The errors that callers match.
var (
	ErrNoCommand = errors.New("no command was started")
	ErrStarting  = errors.New("an executor is about to start the command")
)

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
// and that this call will not start it, ErrStarting that an earlier one may.
func Start(ctx context.Context, launcher []string, dir string, spec Spec) (*Process, error) {
	answer, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	cmd, err := launch(launcher, dir, spec, theirs)
	if err != nil {
		return nil, err
	}
	result, err := readStart(ctx, answer)
	if err != nil {
		// Without an answer nobody knows what runs: end it for certain.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if p, attached := Attach(dir); attached == nil {
			p.lost()
		}
		return nil, fmt.Errorf("executor did not answer: %w%s", err, logTail(dir))
	}
	if result.Taken {
		_ = cmd.Wait()
		return nil, fmt.Errorf("%w: %s", ErrStarting, result.Error)
	}
	if result.Error != "" {
		_ = cmd.Wait()
		return nil, errors.New(result.Error)
	}
	return &Process{Started: result.Started, dir: dir, child: cmd}, nil
}

// launch starts the executor process, which answers on a pipe that this process
// then lets go.
func launch(launcher []string, dir string, spec Spec, answer *os.File) (*exec.Cmd, error) {
	defer answer.Close()
	input, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encode command: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(launcher[0], append(launcher[1:len(launcher):len(launcher)], dir)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), log, log
	cmd.ExtraFiles = []*os.File{answer}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("launch executor: %w", err)
	}
	return cmd, nil
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
// lost. It is ErrNoCommand where none was started, and ErrStarting where an
// executor, whose starter may be dead, has not come that far yet: it does within
// readerLimit, or not at all.
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
		return nil, ErrStarting
	}
	about, ok, err := readClaim(dir)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		return nil, ErrNoCommand
	}
	return &Process{Started: about, dir: dir}, nil
}

// Wait returns how the command ended, once it has, or ctx's error. What can't
// be read for the moment is read again: it says nothing about the command.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	for {
		exit, over, _ := ReadExit(p.dir)
		if !over {
			p.watch(ctx)
			if err := ctx.Err(); err != nil {
				return Exit{}, err
			}
			exit, over = p.lost()
		}
		if over {
			if p.child != nil {
				_ = p.child.Wait() // its exit code says nothing; exit.json does
			}
			return exit, nil
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

// lost settles a command whose executor died without recording an exit, or can't
// record one any more: what is left of it is killed, and that is recorded.
func (p *Process) lost() (Exit, bool) {
	exit := Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL), Error: lostMessage}
	switch live, err := alive(p.dir); {
	case errors.Is(err, fs.ErrNotExist):
		exit.Error = goneMessage
	case live || err != nil:
		return Exit{}, false
	}
	// It may have recorded the exit between our two looks.
	if recorded, ok, err := ReadExit(p.dir); ok && err == nil {
		return recorded, true
	}
	if barred := bar(p.dir); barred != nil {
		defer barred.Close()
	}
	killRest(p.Started)
	exit.At = time.Now()
	if err := WriteExit(p.dir, exit); err != nil && !errors.Is(err, fs.ErrNotExist) {
		exit.Error += fmt.Sprintf("; nor is this recorded: %v", err)
	}
	return exit, true
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
	switch live, lockErr := alive(p.dir); {
	case errors.Is(lockErr, fs.ErrNotExist): // nobody can be asked any more
		_, _ = p.lost()
		return nil
	case lockErr == nil && !live:
		return nil
	}
	return fmt.Errorf("stop: %w", err)
}
