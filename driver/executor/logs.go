package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// readerLimit is how long log FIFOs may stay without a reader before their
// streams are discarded. It leaves room within startLimit.
const readerLimit = 10 * time.Second

// openLogs opens where a command writes its two streams. Until ctx ends it waits
// for their readers, then it discards what has none.
func openLogs(ctx context.Context, s Spec) (stdout, stderr *os.File, err error) {
	open := func(path string) (*os.File, error) {
		f, err := OpenLog(ctx, s.Within, path)
		if err != nil && errors.Is(err, ctx.Err()) {
			return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		}
		return f, err
	}
	if stdout, err = open(s.Stdout); err != nil {
		return nil, nil, fmt.Errorf("open stdout: %w", err)
	}
	if stderr, err = open(s.Stderr); err != nil {
		return nil, nil, fmt.Errorf("open stderr: %w", errors.Join(err, stdout.Close()))
	}
	return stdout, stderr, nil
}

// OpenLog opens a log FIFO for writing once it has a reader, or a plain file or
// device at once; an empty path is the null device. A path below within is not
// followed out of it: other tasks may put symbolic links there. The error is
// ctx's when no reader came in time.
func OpenLog(ctx context.Context, within, path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	for {
		f, err := openNow(within, path)
		switch {
		case err == nil:
			if err := syscall.SetNonblock(int(f.Fd()), false); err != nil {
				return nil, errors.Join(err, f.Close())
			}
			return f, nil
		case !errors.Is(err, syscall.ENXIO) && !errors.Is(err, syscall.EINTR):
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollPause):
		}
	}
}

// openNow opens a stream without waiting for a reader: opened without O_NONBLOCK,
// a FIFO would wait for ever.
func openNow(within, path string) (*os.File, error) {
	const mode = os.O_WRONLY | syscall.O_NONBLOCK
	below, err := filepath.Rel(within, path)
	if within == "" || err != nil || !filepath.IsLocal(below) {
		return os.OpenFile(path, mode, 0)
	}
	root, err := os.OpenRoot(within)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(below, mode, 0)
}
