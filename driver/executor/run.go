package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// answerFD is the pipe on which the executor tells its starter whether the
// command runs.
const answerFD = 3

// Main is the executor process: it reads a Spec from input, runs it in dir and
// stays until the command is over. It is entered through Start only.
func Main(dir string, input io.Reader) error {
	syscall.CloseOnExec(answerFD)
	answer := os.NewFile(answerFD, "answer")
	if _, err := answer.Stat(); err != nil {
		return errors.New("the executor is started by the driver, not by hand")
	}
	// The kernel kills the command when the thread that started it dies: keep
	// this one for as long as the process lives.
	runtime.LockOSThread()
	// Whoever stops the node's services must not stop the executor before the
	// command: these signals are caught and dropped.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)

	held, c, listener, err := prepare(dir, input)
	if err != nil {
		return reply(answer, started{Error: err.Error(), Taken: errors.Is(err, ErrStarting)})
	}
	defer held.Close()
	record, err := reserveExit(dir)
	if err != nil {
		return reply(answer, started{Error: fmt.Sprintf("make room for the exit: %v", err)})
	}
	s, err := c.startIn(dir)
	if err != nil {
		return reply(answer, started{Error: err.Error()})
	}
	go c.serve(listener) // ends with the process
	// A starter that died meanwhile finds the command by its directory.
	_ = reply(answer, started{Started: s})
	return record(c.wait())
}

// startIn starts the command between two marks in dir: that it may run, and
// that it runs.
func (c *command) startIn(dir string) (Started, error) {
	release, err := c.arrange()
	if err != nil {
		return Started{}, err
	}
	defer release()
	claimed, err := claim(dir, c.about())
	if err == nil && !claimed {
		err = errors.New("nobody waits for the command any more")
	}
	if err != nil {
		c.groups.remove()
		return Started{}, fmt.Errorf("record start: %w", err)
	}
	s, err := c.start()
	if err != nil {
		c.groups.remove()
		return Started{}, errors.Join(err, os.Remove(filepath.Join(dir, startingFile)))
	}
	if err := WriteJSON(filepath.Join(dir, startedFile), s); err != nil {
		c.kill()
		_ = c.wait()
		return Started{}, fmt.Errorf("record start: %w", err)
	}
	return s, nil
}

func reply(answer *os.File, result started) error {
	return errors.Join(json.NewEncoder(answer).Encode(result), answer.Close())
}

// prepare reads the command and makes this process the only one to run it.
func prepare(dir string, input io.Reader) (held *os.File, c *command, l net.Listener, err error) {
	c = &command{dir: dir}
	if err := json.NewDecoder(input).Decode(&c.spec); err != nil {
		return nil, nil, nil, fmt.Errorf("read command: %w", err)
	}
	held, err = lock(dir, syscall.LOCK_EX)
	if err != nil {
		return nil, nil, nil, err
	}
	if held == nil {
		return nil, nil, nil, fmt.Errorf("%w: another executor has %s", ErrStarting, dir)
	}
	defer func() {
		if err != nil {
			held.Close()
		}
	}()
	for _, file := range []string{startingFile, exitFile} {
		if _, err := os.Stat(filepath.Join(dir, file)); !os.IsNotExist(err) {
			return nil, nil, nil, fmt.Errorf("%s has run its command already", dir)
		}
	}
	if l, err = listen(dir); err != nil {
		return nil, nil, nil, fmt.Errorf("listen: %w", err)
	}
	return held, c, l, nil
}

// ExitOf reads how a process ended as Nomad's own drivers do.
func ExitOf(state *os.ProcessState) Exit {
	status := state.Sys().(syscall.WaitStatus)
	exit := Exit{Code: status.ExitStatus(), At: time.Now()}
	if status.Signaled() {
		exit.Signal = int(status.Signal())
		exit.Code = 128 + exit.Signal
	}
	return exit
}
