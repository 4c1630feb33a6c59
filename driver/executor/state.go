package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

const (
	lockFile     = "lock"
	visitFile    = "visit"
	socketFile   = "control.sock"
	startingFile = "starting.json"
	startedFile  = "started.json"
	exitFile     = "exit.json"
	roomFile     = ".exit.json-room"
	logFile      = "executor.log"
)

// WriteExit records how the command of a directory ended, for commands that
// this package does not run itself.
func WriteExit(dir string, exit Exit) error { return WriteJSON(filepath.Join(dir, exitFile), exit) }

// ReadExit reads how the command of a directory ended; ok is false while it has
// not.
func ReadExit(dir string) (exit Exit, ok bool, err error) {
	ok, err = ReadJSON(filepath.Join(dir, exitFile), &exit)
	return exit, ok, err
}

// exitRoom is what every exit.json fits in.
const exitRoom = 4096

// reserveExit takes room on the disk for exit.json before the command can fill
// it, and returns how to write it there. It is written once.
func reserveExit(dir string) (write func(Exit) error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, roomFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(make([]byte, exitRoom)); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return func(exit Exit) error {
		data, err := json.Marshal(exit)
		if err == nil {
			_, err = f.WriteAt(data, 0)
		}
		if err == nil {
			err = errors.Join(f.Truncate(int64(len(data))), f.Sync())
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		return os.Rename(f.Name(), filepath.Join(dir, exitFile))
	}, nil
}

// claim makes the mark after which a command may run from a directory, and
// reports false where it was made already: by the one executor that starts the
// command, or by Forbid.
func claim(dir string, about Started) (bool, error) {
	data, err := json.Marshal(about)
	if err != nil {
		return false, err
	}
	f, err := os.OpenFile(filepath.Join(dir, startingFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, errors.Join(err, os.Remove(f.Name()))
	}
	return true, nil
}

// Forbid makes sure that no command is ever started from a directory, and
// reports false where one may have been.
func Forbid(dir string) (bool, error) { return claim(dir, Started{}) }

// readClaim is what the mark says of the command. A torn one was left before
// the command could run.
func readClaim(dir string) (about Started, ok bool, err error) {
	data, err := os.ReadFile(filepath.Join(dir, startingFile))
	if errors.Is(err, fs.ErrNotExist) {
		return about, false, nil
	}
	if err == nil && json.Unmarshal(data, &about) != nil {
		about = Started{}
	}
	return about, err == nil, err
}

func readStarted(dir string) (Started, bool, error) {
	var s Started
	ok, err := ReadJSON(filepath.Join(dir, startedFile), &s)
	return s, ok, err
}

// WriteJSON replaces a file, private to its owner, in one step: after a crash of
// the machine, too, it holds the old value or the new one.
func WriteJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	return replace(path, data)
}

func replace(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadJSON reads what WriteJSON wrote; ok is false where there is no file.
func ReadJSON(path string, into any) (ok bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return false, fmt.Errorf("decode %s: %w", path, err)
	}
	return true, nil
}

// lock takes the executor's lock, LOCK_EX to be the executor or LOCK_SH to look;
// the kernel frees it when the holder dies. A nil file says that it is held.
func lock(dir string, how int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB); err {
	case nil:
		return f, nil
	case syscall.EWOULDBLOCK:
		return nil, f.Close()
	default:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

// visit lets a thread of this process into the control groups of a directory's
// command until leave is called: whoever kills the groups meanwhile would kill
// this process too. It is refused once they are being killed or the command is
// over.
func visit(dir string) (leave func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, visitFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("the command is ending: %w", err), f.Close())
	}
	if live, err := alive(dir); err != nil || !live {
		return nil, errors.Join(errors.New("the command is over"), err, f.Close())
	}
	return f.Close, nil
}

// bar keeps visitors out from now on, until this process ends or closes the file.
// One that is inside is waited for: it only forks.
func bar(dir string) *os.File {
	f, err := os.OpenFile(filepath.Join(dir, visitFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil // nobody else can open it either
	}
	for deadline := time.Now().Add(callLimit); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			break
		}
	}
	return f
}

// alive reports whether an executor holds the lock of a directory.
func alive(dir string) (bool, error) {
	f, err := lock(dir, syscall.LOCK_SH)
	if err != nil || f == nil {
		return f == nil && err == nil, err
	}
	return false, f.Close()
}
