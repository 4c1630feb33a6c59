package incident

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	callEvery = 50 * time.Millisecond
	callLimit = 3 * time.Second
	second    = time.Second
	// bounds of harm and of recovery, of the calls of one second
	harmCalls  = 5
	wellShare  = 0.95
	leastCalls = 12 // that a second must have to say anything
)

// call is one call of a victim: when it began, and how long it took, so far if it
// has not ended.
type call struct{ at, took time.Duration }

// judge calls a victim again and again, whether or not earlier calls have ended.
type judge struct {
	url    string
	client *http.Client
	began  time.Time

	mu    sync.Mutex
	calls []call
	open  map[int]bool // calls that have not ended
}

// newJudge begins to call; stop ends it and waits.
func newJudge(url string) (j *judge, stop func()) {
	j = &judge{url: url, began: time.Now(), open: map[int]bool{}, client: &http.Client{
		Timeout: callLimit, Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
	}}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(callEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				running.Go(func() { j.call(ctx) })
			}
		}
	})
	return j, func() { cancel(); running.Wait(); j.client.CloseIdleConnections() }
}

func (j *judge) call(ctx context.Context) {
	j.mu.Lock()
	i := len(j.calls)
	began := time.Now()
	j.calls, j.open[i] = append(j.calls, call{at: began.Sub(j.began)}), true
	j.mu.Unlock()
	took := callLimit // of a call that fails
	if request, err := http.NewRequestWithContext(ctx, http.MethodGet, j.url, nil); err == nil {
		if response, err := j.client.Do(request); err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			if err == nil && response.StatusCode == http.StatusOK {
				took = time.Since(began)
			}
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[i].took = took
	delete(j.open, i)
}

// now is the time since the judge began.
func (j *judge) now() time.Duration { return time.Since(j.began) }

// all are the calls so far; those that have not ended count what they took so far.
func (j *judge) all() []call {
	j.mu.Lock()
	defer j.mu.Unlock()
	calls := slices.Clone(j.calls)
	for i := range j.open {
		calls[i].took = time.Since(j.began) - calls[i].at
	}
	return calls
}

// within are the calls that began in a span.
func within(calls []call, from, to time.Duration) []call {
	var found []call
	for _, c := range calls {
		if c.at >= from && c.at < to {
			found = append(found, c)
		}
	}
	return found
}

func slow(calls []call, objective time.Duration) (n int) {
	for _, c := range calls {
		if c.took > objective {
			n++
		}
	}
	return n
}

// p95 is the 95th percentile of what calls took; 0 of none.
func p95(calls []call) time.Duration {
	if len(calls) == 0 {
		return 0
	}
	took := make([]time.Duration, len(calls))
	for i, c := range calls {
		took[i] = c.took
	}
	slices.Sort(took)
	return took[(len(took)*95+99)/100-1]
}

// harmed is when the first second began in which enough calls were too slow.
func harmed(calls []call, from, objective time.Duration) (time.Duration, bool) {
	for _, c := range calls {
		if c.at >= from && c.took > objective && slow(within(calls, c.at, c.at+second), objective) >= harmCalls {
			return c.at, true
		}
	}
	return 0, false
}

// recovered is when the first second after some moment began in which nearly all
// calls were fast enough, as far as that can be said by now.
func recovered(calls []call, after, now, objective time.Duration) (time.Duration, bool) {
	for _, c := range calls {
		if c.at <= after || c.at+second > now-objective {
			continue
		}
		of := within(calls, c.at, c.at+second)
		if c.took <= objective && len(of) >= leastCalls && float64(len(of)-slow(of, objective)) >= wellShare*float64(len(of)) {
			return c.at, true
		}
	}
	return 0, false
}

func TestRecovered_IsTheBeginningOfAGoodSecond(t *testing.T) {
	const fast, late = 10 * time.Millisecond, 90 * time.Millisecond
	var calls []call
	for i := range 200 { // ill from 2 s to 5 s, with one slow call at 6 s
		c := call{time.Duration(i) * callEvery, fast}
		if c.at >= 2*second && c.at < 5*second || c.at == 6*second {
			c.took = late
		}
		calls = append(calls, c)
	}
	const objective = 30 * time.Millisecond
	harm, ok := harmed(calls, second, objective)
	if !ok || harm != 2*second {
		t.Errorf("harmed at %s, %t", harm, ok)
	}
	if at, ok := recovered(calls, harm, 10*second, objective); !ok || at != 5*second {
		t.Errorf("recovered at %s, %t", at, ok)
	}
	if at, ok := recovered(calls, harm, 5*second+second/2, objective); ok {
		t.Errorf("recovered at %s, before that can be known", at)
	}
	if at, ok := harmed(calls, 5*second, objective); ok {
		t.Errorf("one slow call is harm, at %s", at)
	}
	if got := p95(calls[:20]); got != fast {
		t.Errorf("95th percentile %s", got)
	}
	if got := p95(append(slices.Clone(calls[:18]), call{0, late}, call{0, late})); got != late {
		t.Errorf("95th percentile %s with a tenth slow", got)
	}
}
