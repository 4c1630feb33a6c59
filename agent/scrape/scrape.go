// Package scrape measures by asking somebody else on the node: an endpoint that
// serves Prometheus's text format, as NVIDIA's DCGM exporter and cAdvisor do. It
// takes the metrics of those two and leaves all others; docs/agent.md lists them.
// It is a source of package agent. cmd/psg-agent makes it.
package scrape

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/psgrid/psg/agent"
)

// Config says what is asked. Zero values mean the defaults.
type Config struct {
	Name    string        // of the source, to people; required
	URL     string        // http or https; required
	Every   time.Duration // between measurements; default 5 s, as exporters look no more often
	Timeout time.Duration // of one; default 4 s
}

func (c Config) withDefaults() Config {
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	if c.Timeout == 0 {
		c.Timeout = 4 * time.Second
	}
	return c
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	c = c.withDefaults()
	u, err := url.Parse(c.URL)
	switch {
	case c.Name == "":
		return errors.New("scrape: no name")
	case err != nil:
		return fmt.Errorf("scrape %s: %w", c.Name, err)
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return fmt.Errorf("scrape %s: %q is no http URL with a host", c.Name, c.URL)
	case c.Every < 0 || c.Timeout < 0:
		return fmt.Errorf("scrape %s: every %s, within %s", c.Name, c.Every, c.Timeout)
	}
	return nil
}

// Source is one endpoint, as an agent.Source. It is for one goroutine.
type Source struct {
	config Config
	client *http.Client
	rates  map[key]rate
}

// New returns the source that config says.
func New(config Config) (*Source, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Source{
		config: config,
		client: &http.Client{
			Transport:     &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, ReadBufferSize: 4 << 10},
			Timeout:       config.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		rates: map[key]rate{},
	}, nil
}

// Name is what the Config says.
func (s *Source) Name() string { return s.config.Name }

// Every is the time between measurements.
func (s *Source) Every() time.Duration { return s.config.Every }

// The bounds of an answer.
const (
	maxAnswer = 16 << 20
	maxLine   = 64 << 10
)

var errUnknown = errors.New("there is no metric of DCGM or cAdvisor in it")

// Measure asks the endpoint and puts what it says of cards and allocations. It
// fails if there is nothing of them, and puts nothing of an answer that is cut
// off or no such text.
func (s *Source) Measure(ctx context.Context, put agent.Put) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.config.URL, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", s.config.URL, response.Status)
	}
	sums, err := read(response.Body, time.Now())
	if err != nil {
		return fmt.Errorf("read %s: %w", s.config.URL, err)
	}
	s.put(sums, put)
	return nil
}

// read sums up what an answer says, line by line: one of cAdvisor may be
// megabytes.
func read(body io.Reader, now time.Time) (*sums, error) {
	limited := &io.LimitedReader{R: body, N: maxAnswer + 1}
	lines := bufio.NewScanner(limited)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	sums := newSums(now)
	known := false
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		family, rest := name(line)
		take, ok := families[string(family)]
		if !ok {
			continue
		}
		sample, err := parse(rest)
		if err != nil {
			return nil, fmt.Errorf("line %d, %s: %w", number, family, err)
		}
		known = true
		take(sums, &sample)
	}
	switch err := lines.Err(); {
	case err != nil:
		return nil, err
	case limited.N <= 0:
		return nil, fmt.Errorf("it has more than %d MiB", maxAnswer>>20)
	case !known:
		return nil, errUnknown
	}
	return sums, nil
}
