package policies

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// ReadFile reads a regular file of at most so many bytes. Anything else is
// refused with a word on what it is: a pipe or a device may give nothing, or
// never end, and whoever reads it cannot be stopped.
func ReadFile(name string, most int64) ([]byte, error) {
	file, err := openRegular(fileSystem{}, name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readAll(file, name, most)
}

// readAll reads no more than so many bytes, and refuses what has more.
func readAll(from io.Reader, name string, most int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(content)) > most:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it is larger than %d bytes", most)}
	}
	return content, nil
}

// place is where names lead to files: the file system, or an os.Root.
type place interface {
	Stat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error)
}

type fileSystem struct{}

func (fileSystem) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

func (fileSystem) OpenFile(name string, flag int, mode fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, mode)
}

// openRegular opens a regular file. It looks before, since opening a device can
// set something off, and after, since the name may lead elsewhere by then; what it
// opens meanwhile does not keep it waiting.
func openRegular(in place, name string) (*os.File, error) {
	info, err := in.Stat(name)
	if err == nil {
		err = regular("open", name, info)
	}
	if err != nil {
		return nil, err
	}
	file, err := in.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = file.Stat(); err == nil {
		err = regular("open", name, info)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// regular says what a file is that is no regular one; nil for one that is.
func regular(what, name string, info fs.FileInfo) error {
	kind := ""
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "a directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	default:
		kind = mode.String()
	}
	return &fs.PathError{Op: what, Path: name, Err: fmt.Errorf("it is %s, and not a regular file", kind)}
}
