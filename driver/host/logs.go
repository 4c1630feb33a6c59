package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// logs is the two streams of one task, each read from a FIFO into a file until
// close.
type logs struct{ stdout, stderr *stream }

type stream struct {
	fifo    string
	reading *os.File
	file    *os.File
	copied  chan error
}

// collect begins to read a task's streams into alloc/logs/TASK.stdout.0 and
// TASK.stderr.0, where Nomad keeps them.
func collect(dir, name string) (*logs, error) {
	var open [2]*stream
	for i, kind := range []string{"stdout", "stderr"} {
		s, err := newStream(filepath.Join(dir, "alloc", "logs"), name, kind)
		if err != nil {
			if i == 1 {
				err = errors.Join(err, open[0].close())
			}
			return nil, fmt.Errorf("collect logs: %w", err)
		}
		open[i] = s
	}
	return &logs{stdout: open[0], stderr: open[1]}, nil
}

func newStream(dir, name, kind string) (*stream, error) {
	s := &stream{fifo: filepath.Join(dir, "."+name+"."+kind+".fifo"), copied: make(chan error, 1)}
	if err := syscall.Mkfifo(s.fifo, 0o600); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	var err error
	s.file, err = os.OpenFile(filepath.Join(dir, name+"."+kind+".0"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	// Open for writing too, a FIFO never ends by itself: writers may come and
	// go, as they do when the plugin is killed.
	s.reading, err = os.OpenFile(s.fifo, os.O_RDWR, 0)
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	go func() {
		_, err := io.Copy(s.file, s.reading)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
		}
		s.copied <- err
	}()
	return s, nil
}

// close reads what is left and ends both streams.
func (l *logs) close() error { return errors.Join(l.stdout.close(), l.stderr.close()) }

func (s *stream) close() error {
	err := s.reading.SetReadDeadline(time.Now())
	return errors.Join(err, <-s.copied, s.drain(), s.file.Close(), s.reading.Close(), os.Remove(s.fifo))
}

// drain copies what is in the FIFO now.
func (s *stream) drain() error {
	if err := s.reading.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	raw, err := s.reading.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	buffer := make([]byte, 4096)
	err = raw.Read(func(fd uintptr) bool {
		for failed == nil {
			n, err := syscall.Read(int(fd), buffer)
			if n <= 0 || err != nil { // empty: nothing else ends a FIFO that we hold open
				break
			}
			_, failed = s.file.Write(buffer[:n])
		}
		return true
	})
	return errors.Join(err, failed)
}
