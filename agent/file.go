package agent

import (
	"bytes"
	"errors"
	"syscall"
	"unsafe"
)

// file is a file of the kernel that stays open: it is read from its start each
// time, with one system call, because the kernel makes the whole text anew for
// each. It is a bare descriptor, as an os.File would ask the kernel whether it
// can be polled, and cost ten times the memory. The zero file is closed.
type file struct {
	fd   int
	open bool
}

// read opens the file if need be and reads as much as buffer takes. path ends
// with a zero byte.
func (f *file) read(path, buffer []byte) (text []byte, err error) {
	if !f.open {
		if f.fd, err = openRaw(path, syscall.O_RDONLY); err != nil {
			return nil, err
		}
		f.open = true
	}
	n, err := f.at(0, buffer)
	return buffer[:n], err
}

// The kernel gives a text of many records page by page. When there is room for
// another record in the first page, there is no second one.
const pageFull = 4096 - 512

// readRecords is read for a text of many records, such as a line per device.
// What does not fit is cut off at the end of a line.
func (f *file) readRecords(path, buffer []byte) (text []byte, err error) {
	text, err = f.read(path, buffer)
	if err != nil || len(text) < pageFull {
		return text, err
	}
	for n := len(text); n > 0 && len(text) < len(buffer); text = buffer[:len(text)+n] {
		if n, err = f.at(len(text), buffer[len(text):]); err != nil {
			return nil, err
		}
	}
	if len(text) == len(buffer) {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	return text, nil
}

func (f *file) at(offset int, buffer []byte) (int, error) {
	for {
		n, err := syscall.Pread(f.fd, buffer, int64(offset))
		switch {
		case err == nil:
			return n, nil
		case !errors.Is(err, syscall.EINTR):
			f.close()
			return 0, err
		}
	}
}

func (f *file) close() {
	if f.open {
		_ = syscall.Close(f.fd) // only ever read
		f.open = false
	}
}

// openRaw opens path, which ends with a zero byte. The standard library would
// copy the path on each call.
func openRaw(path []byte, flags int) (int, error) {
	const here = -100 // AT_FDCWD: a relative path begins in the working directory
	at := here
	for {
		fd, _, errno := syscall.Syscall6(syscall.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(&path[0])),
			uintptr(flags|syscall.O_CLOEXEC), 0, 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case syscall.EINTR:
		default:
			return -1, errno
		}
	}
}

// readAndClose opens a file, reads as much as buffer takes, and closes it.
func readAndClose(path, buffer []byte) ([]byte, error) {
	var f file
	defer f.close()
	return f.read(path, buffer)
}

// join writes the parts of a path into scratch, with a zero byte at the end.
func join(scratch []byte, dir, name string) []byte {
	scratch = append(append(scratch[:0], dir...), '/')
	return append(append(scratch, name...), 0)
}
