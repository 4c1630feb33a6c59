package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

const (
	maxProbes     = 64 // that run at once on a node
	maxProbed     = 32 // answers of one that wait to be looked at
	minProbe      = 50 * time.Millisecond
	maxProbeTime  = time.Minute
	maxProbeBody  = 64 << 10
	maxEnviron    = 128 << 10
	probeRestarts = 5 * time.Second // between two tries to find out where to ask
)

// checkProbe says what is wrong with a probe; none is right.
func checkProbe(p *psg.Probe) error {
	switch {
	case p == nil:
		return nil
	case p.Port == "":
		return errors.New("no port")
	case p.Interval < minProbe || p.Interval > maxProbeTime:
		return fmt.Errorf("interval %s is outside %s..%s", p.Interval, minProbe, maxProbeTime)
	case p.Objective <= 0 || p.Objective > maxProbeTime:
		return fmt.Errorf("objective %s is outside 0..%s", p.Objective, maxProbeTime)
	case p.Path != "" && !strings.HasPrefix(p.Path, "/"):
		return fmt.Errorf("path %q does not begin with a slash", p.Path)
	}
	return nil
}

// wanted are the probes that the mandate asks for, by allocation; those beyond
// the bound, by the mandate's order, are left out.
func (h *healer) wanted() map[psg.AllocID]psg.Probe {
	h.mu.Lock()
	defer h.mu.Unlock()
	wanted := map[psg.AllocID]psg.Probe{}
	if h.mandate == nil || h.mode == HealOff {
		return wanted
	}
	for _, c := range h.mandate.Charges {
		if c.Protected && c.Probe != nil && len(wanted) < maxProbes {
			wanted[c.Alloc] = *c.Probe
		}
	}
	return wanted
}

// runProbes runs what the mandate asks for until ctx ends.
func (h *healer) runProbes(ctx context.Context, of *tenants) {
	var running sync.WaitGroup
	defer running.Wait()
	type run struct {
		probe psg.Probe
		stop  context.CancelFunc
	}
	runs := map[psg.AllocID]run{}
	for {
		wanted := h.wanted()
		for alloc, r := range runs {
			if p, still := wanted[alloc]; !still || p != r.probe {
				r.stop()
				delete(runs, alloc)
			}
		}
		for alloc, p := range wanted {
			if _, runs_ := runs[alloc]; runs_ {
				continue
			}
			probing, stop := context.WithCancel(ctx)
			runs[alloc] = run{p, stop}
			running.Go(func() { h.keepProbing(probing, alloc, p, of) })
		}
		select {
		case <-ctx.Done():
			return
		case <-h.changed:
		}
	}
}

// keepProbing asks one allocation at its interval until ctx ends. One that does
// not answer at all is not slow: nothing is known of it.
func (h *healer) keepProbing(ctx context.Context, alloc psg.AllocID, p psg.Probe, of *tenants) {
	ask := newAsker(p)
	defer ask.close()
	var address string
	var failed error
	tick := time.NewTicker(p.Interval)
	defer tick.Stop()
	for {
		var err error
		if address == "" {
			address, err = h.whereabouts(p.Port, of.of(alloc))
		}
		if err == nil {
			late := h.lateness(alloc, p.Objective)
			var took time.Duration
			if took, err = ask.ask(ctx, address); !late() && err == nil {
				h.probe(alloc, took, p.Objective)
			}
		}
		if ctx.Err() != nil {
			return
		}
		pause := tick.C
		if err != nil {
			address, pause = "", time.After(min(probeRestarts, 10*p.Interval))
		}
		if (err == nil) != (failed == nil) {
			h.log.Info("probe", "alloc", alloc, "port", p.Port, "error", err)
		}
		failed = err
		select {
		case <-ctx.Done():
			return
		case <-pause:
		}
	}
}

// lateness takes in an answer as too slow once the objective has passed, without
// waiting for it. late ends that, and reports whether it was taken in.
func (h *healer) lateness(alloc psg.AllocID, objective time.Duration) (late func() bool) {
	told := make(chan struct{})
	timer := time.AfterFunc(objective+1, func() {
		h.probe(alloc, objective+1, objective)
		close(told)
	})
	return func() bool {
		if timer.Stop() {
			return false
		}
		<-told
		return true
	}
}

// asker measures how long an answer takes. A timeout is an answer that took as
// long: nobody waits for one that is late, or the next question would come late.
type asker struct {
	path   string
	limit  time.Duration
	client *http.Client
}

func newAsker(p psg.Probe) *asker {
	return &asker{path: p.Path, limit: max(p.Interval, p.Objective+time.Millisecond), client: &http.Client{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (a *asker) close() { a.client.CloseIdleConnections() }

func (a *asker) ask(ctx context.Context, address string) (took time.Duration, err error) {
	limited, cancel := context.WithTimeout(ctx, a.limit)
	defer cancel()
	began := time.Now()
	if a.path == "" {
		err = connect(limited, address)
	} else {
		err = a.get(limited, "http://"+address+a.path)
	}
	took = time.Since(began)
	if err != nil && limited.Err() != nil && ctx.Err() == nil {
		return max(took, a.limit), nil
	}
	return took, err
}

func connect(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// get reads an answer, whatever its status: a service that refuses quickly is
// not slow.
func (a *asker) get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, maxProbeBody))
	return err
}

// whereabouts is the address of a port: a number is one of the node's loopback,
// a label what Nomad told the allocation's tasks. It is always the node's own: a
// job must not have the agent call others.
func (h *healer) whereabouts(port string, tasks []tenant) (string, error) {
	if number, err := strconv.ParseUint(port, 10, 16); err == nil && number > 0 {
		return net.JoinHostPort("127.0.0.1", port), nil
	}
	variable := "NOMAD_HOST_ADDR_" + envName(port) + "="
	for _, t := range tasks {
		pids, err := hand.Processes(t.groups)
		if err != nil {
			return "", err
		}
		for _, pid := range pids {
			if address := environment(h.proc, pid, variable); address != "" {
				return address, ownAddress(address)
			}
		}
	}
	return "", fmt.Errorf("no task of the allocation has been told of a port %q", port)
}

// envName is a port's label as Nomad has it in names of variables.
func envName(label string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, label)
}

func environment(proc string, pid int, name string) string {
	file, err := os.Open(filepath.Join(proc, strconv.Itoa(pid), "environ"))
	if err != nil {
		return "" // it has ended
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxEnviron))
	if err != nil {
		return ""
	}
	return string(variable(text, name))
}

// ownAddress reports an address that is not one of the node's.
func ownAddress(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return fmt.Errorf("port %q is no number", port) // in a URL, "80@elsewhere" is another host
	}
	ip := net.ParseIP(host)
	if ip == nil {
		return fmt.Errorf("%q is not an IP address", host)
	}
	if ip.IsLoopback() {
		return nil
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("list own addresses: %w", err)
	}
	for _, a := range own {
		if network, ok := a.(*net.IPNet); ok && network.IP.Equal(ip) {
			return nil
		}
	}
	return fmt.Errorf("%s is not an address of this node", ip)
}
