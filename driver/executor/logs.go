package executor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// readerLimit is how long a log FIFO may stay without a reader before its
// stream is discarded.
const readerLimit = 10 * time.Second

// openLog opens where a command writes a stream.
func openLog(path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readerLimit)
	defer cancel()
	f, err := OpenLog(ctx, path)
	if errors.Is(err, context.DeadlineExceeded) {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return f, err
}

// OpenLog opens a log FIFO for writing once it has a reader, or a plain file or
// device at once; an empty path is the null device. The error is ctx's when no
// reader came in time.
func OpenLog(ctx context.Context, path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	for {
		// Opening without O_NONBLOCK would wait for a reader for ever.
		fd, err := syscall.Open(path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
		switch err {
		case nil:
			if err := syscall.SetNonblock(fd, false); err != nil {
				syscall.Close(fd)
				return nil, err
			}
			return os.NewFile(uintptr(fd), path), nil
		case syscall.ENXIO, syscall.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollPause):
		}
	}
}
