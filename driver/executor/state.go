package executor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const (
	lockFile     = "lock"
	socketFile   = "control.sock"
	startingFile = "starting"
	startedFile  = "started.json"
	exitFile     = "exit.json"
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

func readStarted(dir string) (Started, bool, error) {
	var s Started
	ok, err := ReadJSON(filepath.Join(dir, startedFile), &s)
	return s, ok, err
}

// WriteJSON replaces a file, private to its owner, in one step that survives a
// crash of the machine.
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

// lock takes the executor's lock; the kernel frees it when the holder dies.
// A nil file says that another executor holds it.
func lock(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err {
	case nil:
		return f, nil
	case syscall.EWOULDBLOCK:
		return nil, f.Close()
	default:
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
}

// alive reports whether an executor holds the lock of a directory.
func alive(dir string) (bool, error) {
	f, err := lock(dir)
	if err != nil || f == nil {
		return f == nil && err == nil, err
	}
	return false, f.Close()
}
