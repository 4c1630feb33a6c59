package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// How long a source that fails is left alone.
const (
	minBackoff = time.Second
	maxBackoff = time.Minute
)

// parser reads the metrics of one source from its text. It reports false when
// there is nothing to say yet, such as a rate after the first reading.
type parser func(text []byte, values []float64) (ready bool, err error)

// source is one file and the metrics it gives.
type source struct {
	proc, path string
	parse      parser
	metrics    []string
	windows    []*window // one per metric, as is values
	values     []float64

	file    *os.File // nil while it cannot be read
	err     error    // why not
	backoff time.Duration
	retryAt time.Time
}

func (s *source) collect(now time.Time, buffer []byte) {
	ready, err := s.read(buffer)
	if s.err = err; err != nil {
		s.close()
		s.backoff = min(max(2*s.backoff, minBackoff), maxBackoff)
		s.retryAt = now.Add(s.backoff)
		for _, w := range s.windows {
			w.clear()
		}
		return
	}
	s.backoff, s.retryAt = 0, time.Time{}
	if !ready {
		return
	}
	for i, w := range s.windows {
		w.push(now, s.values[i])
	}
}

// read reads the beginning of the file, as much as buffer takes, which is more
// than any parser needs.
func (s *source) read(buffer []byte) (ready bool, err error) {
	if s.file == nil {
		if s.file, err = os.Open(filepath.Join(s.proc, s.path)); err != nil {
			return false, err
		}
	}
	n, err := readOnce(s.file, buffer)
	if err != nil {
		return false, fmt.Errorf("read %s: %w", s.file.Name(), err)
	}
	if ready, err = s.parse(buffer[:n], s.values); err != nil {
		return false, fmt.Errorf("parse %s: %w", s.file.Name(), err)
	}
	return ready, nil
}

// readOnce reads from the start of a file with one system call: the kernel
// makes the whole text anew for each, and File.ReadAt would make a second to
// see the end.
func readOnce(file *os.File, buffer []byte) (int, error) {
	for {
		n, err := syscall.Pread(int(file.Fd()), buffer, 0)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close() // only ever read
		s.file = nil
	}
}
