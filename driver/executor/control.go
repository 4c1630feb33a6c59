package executor

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// request is one line that a client writes on a connection of its own.
type request struct {
	Op      string        `json:"op"` // "wait", "signal" or "stop"
	Signal  int           `json:"signal,omitempty"`
	Timeout time.Duration `json:"timeout_ns,omitempty"`
}

// response is the executor's one line in answer. A connection that ends without
// one says that the command is over, or the executor dead.
type response struct {
	Error string `json:"error,omitempty"`
}

// socketPath names the control socket through an open directory: the path of an
// allocation may be longer than a socket address can hold.
func socketPath(dir *os.File) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile)
}

func listen(dir string) (net.Listener, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if err := os.Remove(filepath.Join(dir, socketFile)); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socketPath(d), Net: "unix"})
	if err != nil {
		return nil, err
	}
	// The name dies with d; the file goes with the directory.
	l.SetUnlinkOnClose(false)
	return l, nil
}

func dial(dir string) (net.Conn, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return net.Dial("unix", socketPath(d))
}

// call sends one request and reads its answer.
func call(dir string, req request, limit time.Duration) error {
	conn, err := dial(dir)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if err := json.NewEncoder(conn).Encode(req); err != nil {
		return err
	}
	var res response
	if err := json.NewDecoder(conn).Decode(&res); err != nil {
		return err
	}
	if res.Error != "" {
		return fmt.Errorf("%s: %s", req.Op, res.Error)
	}
	return nil
}

// serve answers requests until the listener closes. Connections that wait are
// closed by the end of the process.
func (c *command) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go c.answer(conn)
	}
}

func (c *command) answer(conn net.Conn) {
	defer conn.Close()
	var req request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return
	}
	var err error
	switch req.Op {
	case "wait": // until the client or this process ends
		_, _ = io.Copy(io.Discard, conn)
		return
	case "signal":
		err = c.signal(syscall.Signal(req.Signal))
	case "stop":
		c.stop(syscall.Signal(req.Signal), req.Timeout)
	default:
		err = fmt.Errorf("unknown request %q", req.Op)
	}
	var res response
	if err != nil {
		res.Error = err.Error()
	}
	// A client that has gone needs no answer.
	_ = json.NewEncoder(conn).Encode(res)
}
