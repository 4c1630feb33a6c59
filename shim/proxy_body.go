package shim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// bodyWithin is how long a request may take to come that is read whole.
	bodyWithin = 2 * time.Minute
	// smallBody is how many bytes of a request count for nothing: whatever else comes,
	// an ordinary job is read.
	smallBody = 64 << 10
	// maxBodies is how many bytes all other requests that are read whole may have in
	// all. What is made of them takes several times as much.
	maxBodies = 4 * maxInput
)

// errCrowded is why a body is not read.
var errCrowded = errors.New("too much is being sent at once")

// counted is a body of which the bytes beyond smallBody are in held, which counts
// those of all bodies.
type counted struct {
	io.Reader
	held       *atomic.Int64
	came, took int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.came += int64(n)
	if more := c.came - smallBody - c.took; more > 0 {
		c.took += more
		if c.held.Add(more) > maxBodies {
			return n, errCrowded
		}
	}
	return n, err
}

// atEnd does something once a reader has ended.
type atEnd struct {
	io.Reader
	do func()
}

func (a *atEnd) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err != nil {
		a.do()
	}
	return n, err
}

// readBody reads a request whole, or answers it: then free is nil. Else free is to be
// called once its body is needed no more. One that is too large to be read passes if
// its namespace is none of PSG's, whatever is in it.
func (p *Proxy) readBody(w http.ResponseWriter, r *http.Request) (body []byte, free func()) {
	wait := http.NewResponseController(w)
	_ = wait.SetReadDeadline(time.Now().Add(bodyWithin)) // what is no connection has none
	whole := &counted{Reader: io.LimitReader(r.Body, maxInput+1), held: &p.bodies}
	body, err := io.ReadAll(whole)
	free = sync.OnceFunc(func() { p.bodies.Add(-whole.took) })
	_ = wait.SetReadDeadline(time.Time{})
	if err == nil && len(body) <= maxInput {
		return body, free
	}
	defer free()
	switch {
	case errors.Is(err, errCrowded):
		w.Header().Set("Retry-After", "1")
		http.Error(w, fmt.Sprintf("psg: read request: %v, try again", err), http.StatusServiceUnavailable)
		return nil, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		http.Error(w, fmt.Sprintf("psg: read request: it did not come within %s", bodyWithin), http.StatusRequestTimeout)
		return nil, nil
	case err != nil:
		http.Error(w, fmt.Sprintf("psg: read request: %v", err), http.StatusBadRequest)
		return nil, nil
	}
	if namespace := r.URL.Query().Get("namespace"); namespace != "" {
		if places, err := p.scope.holds(r.Context(), namespace); err == nil && !places {
			out := r.Clone(r.Context())
			out.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(&atEnd{bytes.NewReader(body), free}, r.Body), r.Body}
			p.pass.ServeHTTP(w, out)
			return nil, nil
		}
	}
	http.Error(w, fmt.Sprintf("psg: read request: it is too large: more than %d bytes", maxInput), http.StatusRequestEntityTooLarge)
	return nil, nil
}
