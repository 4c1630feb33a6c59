package driver

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// answer is what a scripted controller says after a while.
type answer struct {
	after time.Duration
	order psg.Order
	err   error
}

// scripted gives answers in turn and the last one for ever.
type scripted struct {
	answers []answer
	calls   int
	afters  []uint64
}

func (s *scripted) Place(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error) {
	s.afters = append(s.afters, after)
	a := s.answers[min(s.calls, len(s.answers)-1)]
	s.calls++
	if err := sleep(ctx, a.after); err != nil {
		return psg.Order{}, err
	}
	a.order.Ask = ask.ID
	return a.order, a.err
}

func waits(state psg.State, summary string) psg.Order {
	return psg.Order{Kind: psg.Wait, Refusal: &psg.Refusal{State: state, Summary: summary}}
}

func grants(devices ...psg.DeviceID) psg.Order {
	order := psg.Order{Kind: psg.Grant, Node: "node-1"}
	for _, id := range devices {
		order.Devices = append(order.Devices, psg.DeviceShare{Device: id})
	}
	return order
}

var errDown = errors.New("connection refused")

// passes runs a gate against a script and returns how it opened, what it said
// and how long it took.
func passes(ctx context.Context, s *scripted, fail hclspec.FailPolicy, after time.Duration) (passage, []string, time.Duration, error) {
	var said []string
	g := gate{
		ask: psg.Ask{ID: "a1", Node: "node-1"}, node: "host-1", place: s.Place,
		policy: func() (hclspec.FailPolicy, time.Duration) { return fail, after },
		tell:   func(_, message string) { said = append(said, message) },
	}
	began := time.Now()
	p, err := g.wait(ctx)
	return p, said, time.Since(began), err
}

func TestGate_TellsEachAnswerOnceAndOpensOnGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{
			{order: waits(psg.Queued, "no room")},
			{after: 30 * time.Second, order: waits(psg.Queued, "no room")},
			{after: 30 * time.Second, order: waits(psg.Denied, "policy says no")},
			{after: time.Second, order: psg.Order{Kind: psg.Steer, Node: "node-2", Refusal: &psg.Refusal{State: psg.Elsewhere, Summary: "more room"}}},
			{after: time.Second, order: grants("GPU-1", "GPU-2", "GPU-1")},
		}}
		p, said, _, err := passes(t.Context(), s, hclspec.FailClosed, time.Minute)
		want := []string{
			"queued: no room", "denied: policy says no", "elsewhere: planned on node-2: more room",
			"granted on host-1, devices GPU-1, GPU-2",
		}
		if err != nil || p.open || !reflect.DeepEqual(said, want) {
			t.Errorf("got %+v, %v, said %q", p, err, said)
		}
	})
}

func TestGate_DoesNotSpinOnAControllerThatAnswersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &scripted{answers: []answer{{order: waits(psg.Queued, "no room")}}}
		if _, _, _, err := passes(ctx, s, hclspec.FailClosed, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if s.calls < 20 || s.calls > 40 {
			t.Errorf("%d calls in a minute", s.calls)
		}
	})
}

func TestGate_TellsChangingReasonsOfOneStateSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		for i := range 60 {
			s.answers = append(s.answers, answer{after: time.Second, order: waits(psg.Queued, strings.Repeat("x", i+1))})
		}
		s.answers = append(s.answers, answer{after: time.Second, order: grants()})
		_, said, _, err := passes(t.Context(), s, hclspec.FailClosed, time.Minute)
		if err != nil || len(said) < 6 || len(said) > 8 || said[len(said)-1] != "granted on host-1" {
			t.Errorf("%v, said %q", err, said)
		}
	})
}

func TestGate_FailOpenStartsAfterFailAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{{err: errDown}}}
		p, said, took, err := passes(t.Context(), s, hclspec.FailOpen, 30*time.Second)
		want := []string{
			"waiting: no controller answers: connection refused",
			`started without a decision: no controller has answered for 30s (fail = "open"): connection refused`,
		}
		if err != nil || !p.open || took != 30*time.Second || !reflect.DeepEqual(said, want) {
			t.Errorf("got %+v, %v after %v, said %q", p, err, took, said)
		}
	})
}

func TestGate_FailClosedKeepsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{}
		for range 100 { // several minutes of backoff
			s.answers = append(s.answers, answer{err: errDown})
		}
		s.answers = append(s.answers, answer{order: grants()})
		p, said, took, err := passes(t.Context(), s, hclspec.FailClosed, 30*time.Second)
		want := []string{
			"waiting: no controller answers: connection refused",
			`waiting: no controller has answered for 30s (fail = "closed"): connection refused`,
			"granted on host-1",
		}
		if err != nil || p.open || took < 3*time.Minute || !reflect.DeepEqual(said, want) {
			t.Errorf("got %+v, %v after %v, said %q", p, err, took, said)
		}
	})
}

func TestGate_AnAnswerEndsTheSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{
			{after: 20 * time.Second, err: errDown},
			{after: 5 * time.Second, order: waits(psg.Queued, "no room")},
			{after: 20 * time.Second, err: errDown},
			{after: 5 * time.Second, err: psg.ErrUnknown},
			{after: 20 * time.Second, err: errDown},
			{order: grants()},
		}}
		if p, said, _, err := passes(t.Context(), s, hclspec.FailOpen, 30*time.Second); err != nil || p.open {
			t.Errorf("got %+v, %v, said %q", p, err, said)
		}
	})
}

func TestGate_ABrokenLongPollIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{answers: []answer{{after: 25 * time.Second, err: errDown}, {order: grants()}}}
		if p, said, _, err := passes(t.Context(), s, hclspec.FailOpen, 10*time.Second); err != nil || p.open {
			t.Errorf("got %+v, %v, said %q", p, err, said)
		}
		s = &scripted{answers: []answer{{after: 40 * time.Second, err: context.DeadlineExceeded}}}
		if p, _, took, err := passes(t.Context(), s, hclspec.FailOpen, 10*time.Second); err != nil || !p.open || took != 40*time.Second {
			t.Errorf("unheard: got %+v, %v after %v", p, err, took)
		}
	})
}

func TestGate_AsksForNewsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, elsewhere, last := waits(psg.Queued, "no room"), grants(), grants()
		first.Sequence, elsewhere.Sequence, elsewhere.Node = 7, 9, "node-2"
		s := &scripted{answers: []answer{{order: first}, {err: errDown}, {order: elsewhere}, {order: last}}}
		_, said, _, err := passes(t.Context(), s, hclspec.FailClosed, time.Minute)
		if err != nil || !reflect.DeepEqual(s.afters, []uint64{0, 7, 7, 9}) || said[2] != "elsewhere: planned on node-2" {
			t.Errorf("%v, asked after %v, said %q", err, s.afters, said)
		}
	})
}

func TestGate_EndsAtOnceWhenStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, s := range []*scripted{
			{answers: []answer{{after: time.Hour}}},
			{answers: []answer{{err: errDown}}},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
			if _, _, took, err := passes(ctx, s, hclspec.FailClosed, time.Second); took != 7*time.Second || err == nil {
				t.Errorf("got %v after %v", err, took)
			}
			cancel()
		}
	})
}
