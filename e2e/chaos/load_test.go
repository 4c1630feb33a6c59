package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	nouns "github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

// load is callers that ask for places, as gates and tools do, and remember what
// they were told.
type load struct {
	t      *testing.T
	client *rpc.Client
	stop   context.CancelFunc
	group  sync.WaitGroup
	last   atomic.Int64 // time of the last answer, in Unix ns

	mu       sync.Mutex
	granted  map[string]string // node, by ask
	waiting  map[string]bool   // asks of the tight node that were told to wait
	released map[string]bool   // reservations given back
	expiring map[string]bool   // reservations left to expire
}

const callers = 8

// startLoad asks until stop; what one caller has begun it ends.
func startLoad(t *testing.T, grpc []string) *load {
	t.Helper()
	client, err := rpc.Dial(grpc, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, stop := context.WithCancel(t.Context())
	l := &load{
		t: t, client: client, stop: stop,
		granted: map[string]string{}, waiting: map[string]bool{}, released: map[string]bool{}, expiring: map[string]bool{},
	}
	for i := range callers {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		l.group.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				id := fmt.Sprintf("c%d-%d", i, n)
				switch kind := rng.IntN(10); {
				case kind < 6:
					l.place(id, 1+rng.IntN(4))
				case kind < 7:
					l.placeTight(id)
				default:
					l.reserve(id, rng.IntN(3) == 0)
				}
			}
		})
	}
	return l
}

// finish ends the load once each caller has its answer.
func (l *load) finish() {
	l.stop()
	l.group.Wait()
}

// patiently repeats a call until it is answered, as a gate does.
func (l *load) patiently(what string, call func(ctx context.Context) error) bool {
	deadline := time.Now().Add(2 * time.Minute)
	for {
		ctx, cancel := context.WithTimeout(l.t.Context(), 15*time.Second)
		err := call(ctx)
		cancel()
		switch {
		case err == nil:
			l.last.Store(time.Now().UnixNano())
			return true
		case l.t.Context().Err() != nil:
			return false
		case errors.Is(err, nouns.ErrInvalid), errors.Is(err, nouns.ErrUnknown), time.Now().After(deadline):
			l.t.Errorf("%s: %v", what, err)
			return false
		}
		select {
		case <-l.t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func asks(id, job, node string, n int) []nouns.Ask {
	out := make([]nouns.Ask, n)
	for i := range out {
		alloc := fmt.Sprintf("%s-%d", id, i)
		out[i] = nouns.Ask{ID: nouns.RequestID(alloc), Alloc: nouns.AllocID(alloc), Workload: workload(job), Node: nouns.NodeID(node)}
	}
	return out
}

// place asks for several instances in one call, which there is room for, and
// sometimes asks again: the answer must be the same.
func (l *load) place(id string, n int) {
	for again := range 2 {
		if again == 1 && len(id)%3 != 0 {
			return
		}
		l.patiently("place "+id, func(ctx context.Context) error {
			orders, _, err := l.client.PlaceAll(ctx, asks(id, "web", "", n), 0)
			if err != nil {
				return err
			}
			for _, order := range orders {
				if order.Kind != nouns.Grant {
					return fmt.Errorf("ask %s is told to %s: %w", order.Ask, order.Kind, nouns.ErrUnavailable)
				}
				l.note(order)
			}
			return nil
		})
	}
}

func (l *load) note(order nouns.Order) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ask, node := string(order.Ask), string(order.Node)
	if before, told := l.granted[ask]; told && before != node {
		l.t.Errorf("ask %s was told %s, and then %s", ask, before, node)
	}
	l.granted[ask] = node
	delete(l.waiting, ask)
}

// placeTight asks for a node that has room for few.
func (l *load) placeTight(id string) {
	l.patiently("place "+id, func(ctx context.Context) error {
		orders, _, err := l.client.PlaceAll(ctx, asks(id, "tight", "tight", 1), 0)
		if err != nil {
			return err
		}
		if orders[0].Kind == nouns.Grant && orders[0].Node == "tight" {
			l.note(orders[0])
			return nil
		}
		if orders[0].Refusal == nil { // time ran out before there was an answer: it says nothing
			return fmt.Errorf("ask %s is not answered yet: %w", id, nouns.ErrUnavailable)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting[string(orders[0].Ask)] = true
		return nil
	})
}

// reserve holds room for a few instances, and gives it back or lets it expire.
func (l *load) reserve(id string, expire bool) {
	r := nouns.Reservation{ID: nouns.RequestID("r-" + id), Workload: workload("batch"), Count: 3, Hold: time.Minute}
	if expire {
		r.Hold = 500 * time.Millisecond
	}
	held := l.patiently("reserve "+id, func(ctx context.Context) error {
		placements, refusals, err := l.client.Reserve(ctx, r)
		if err == nil && len(placements) != 3 && !expire {
			return fmt.Errorf("%d placements, %d refusals: %w", len(placements), len(refusals), nouns.ErrUnavailable)
		}
		if errors.Is(err, nouns.ErrInvalid) {
			return nil // over before it was told: it expired, or the call was given up
		}
		return err
	})
	if !held {
		return
	}
	if expire {
		l.mu.Lock()
		l.expiring[string(r.ID)] = true
		l.mu.Unlock()
		return
	}
	l.patiently("give back "+id, func(ctx context.Context) error {
		_, _, err := l.client.Reserve(ctx, nouns.Reservation{ID: r.ID, Release: true})
		return err
	})
	l.mu.Lock()
	l.released[string(r.ID)] = true
	l.mu.Unlock()
}

// startProbe asks for nothing but an answer.
func startProbe(g *grid) *load {
	g.t.Helper()
	client, err := rpc.Dial(g.grpc, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(g.t.Context())
	l := &load{t: g.t, client: client, stop: stop, granted: map[string]string{}, waiting: map[string]bool{}, released: map[string]bool{}, expiring: map[string]bool{}}
	l.group.Go(func() {
		defer client.Close()
		for ctx.Err() == nil {
			began := time.Now()
			try, cancel := context.WithTimeout(ctx, time.Second)
			id := fmt.Sprintf("probe-%d", began.UnixNano())
			orders, _, err := client.PlaceAll(try, asks(id, "web", "", 1), 0)
			cancel()
			if err == nil && orders[0].Kind == nouns.Grant {
				l.last.Store(began.UnixNano())
			}
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	return l
}

// decision names what a record says of an ask.
func decision(sequence uint64, ask string) string { return fmt.Sprint(sequence, "/", ask) }
