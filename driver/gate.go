package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

const (
	retryFirst  = 100 * time.Millisecond // after a controller did not answer
	retryMost   = 5 * time.Second
	pauseFirst  = 50 * time.Millisecond // after a controller answered at once
	pauseMost   = 2 * time.Second
	quickAnswer = time.Second      // a long poll that took less did not wait
	tellAgain   = 10 * time.Second // between reasons of one state, since few events are kept
)

// gate holds one ask until it is granted.
type gate struct {
	ask    psg.Ask
	node   string // for people
	place  func(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error)
	policy func() (hclspec.FailPolicy, time.Duration) // may change meanwhile
	tell   func(told, message string)

	after   uint64 // record of the last answer
	told    string // last thing said, not to be said again
	toldAt  time.Time
	failing time.Time // when silence began; zero since the last answer
	pause   time.Duration
	retry   time.Duration
}

// passage is how a gate was opened.
type passage struct {
	order psg.Order
	open  bool // by fail = "open": there is no order
}

// wait returns when the gate opens, or ctx's error.
func (g *gate) wait(ctx context.Context) (passage, error) {
	for {
		asked := time.Now()
		order, err := g.place(ctx, g.ask, g.after)
		if ctx.Err() != nil {
			return passage{}, ctx.Err()
		}
		var rest time.Duration
		switch {
		case err == nil && order.Kind == psg.Grant && order.Node == g.ask.Node:
			g.say(grantMessage(g.node, order.Devices), "")
			return passage{order: order}, nil
		case err == nil:
			g.answered()
			g.after = order.Sequence
			rest = g.heard(order, time.Since(asked))
		case controllerAnswered(err):
			g.answered()
			g.say(fmt.Sprintf("waiting: the controller says: %v", err), "")
			rest = g.backOff()
		default:
			if g.failing.IsZero() {
				g.failing = silentSince(asked, err)
			}
			if g.failed(err) {
				return passage{open: true}, nil
			}
			rest = min(g.backOff(), g.untilOpen())
		}
		if err := sleep(ctx, rest); err != nil {
			return passage{}, err
		}
	}
}

// controllerAnswered tells a controller that refuses the question from one that
// is not there.
func controllerAnswered(err error) bool {
	return errors.Is(err, psg.ErrUnknown) || errors.Is(err, psg.ErrInvalid) || errors.Is(err, psg.ErrBusy)
}

// silentSince is when the controllers fell silent: a long poll that breaks was
// held until then, one that ran out of time may never have been heard.
func silentSince(asked time.Time, err error) time.Time {
	if errors.Is(err, context.DeadlineExceeded) {
		return asked
	}
	return time.Now()
}

func (g *gate) answered() { g.failing = time.Time{} }

// heard tells the user an answer that is not a grant and returns how long to
// rest: hardly, unless the controller answers without waiting.
func (g *gate) heard(order psg.Order, took time.Duration) time.Duration {
	g.retry = 0
	if g.say(waitMessage(order), "") || took >= quickAnswer {
		g.pause = 0
	}
	if took >= quickAnswer {
		return 0
	}
	g.pause = min(max(2*g.pause, pauseFirst), pauseMost)
	return g.pause
}

// failed tells the user that no controller answers and reports whether the gate
// opens for it.
func (g *gate) failed(err error) bool {
	policy, after := g.policy()
	silent := time.Since(g.failing)
	switch {
	case silent < after:
		g.say("waiting: no controller answers", err.Error())
	case policy == hclspec.FailOpen:
		g.say(fmt.Sprintf("started without a decision: no controller has answered for %v (fail = \"open\")", after), err.Error())
		return true
	default:
		g.say(fmt.Sprintf("waiting: no controller has answered for %v (fail = \"closed\")", after), err.Error())
	}
	return false
}

// untilOpen is how long a silent controller may stay so before the gate opens.
func (g *gate) untilOpen() time.Duration {
	policy, after := g.policy()
	if policy != hclspec.FailOpen {
		return retryMost
	}
	return max(0, after-time.Since(g.failing))
}

// backOff is the next pause between failures: doubling, capped and jittered, so
// that a thousand gates don't return together.
func (g *gate) backOff() time.Duration {
	g.retry = min(max(2*g.retry, retryFirst), retryMost)
	return g.retry/2 + rand.N(g.retry/2+1)
}

// say tells the user something that differs from the last thing said, and
// reports whether it differed; a detail may differ from one time to the next. A
// new reason for the same state waits a little: the next poll repeats it.
func (g *gate) say(what, detail string) bool {
	if what == g.told {
		return false
	}
	state := stateOf(what)
	if state == stateOf(g.told) && state != "waiting" && time.Since(g.toldAt) < tellAgain {
		return true
	}
	g.told, g.toldAt = what, time.Now()
	if detail != "" {
		g.tell(what, what+": "+detail)
	} else {
		g.tell(what, what)
	}
	return true
}

func stateOf(message string) string {
	state, _, _ := strings.Cut(message, ":")
	return state
}

func grantMessage(node string, devices []psg.DeviceShare) string {
	if len(devices) == 0 {
		return "granted on " + node
	}
	return fmt.Sprintf("granted on %s, devices %s", node, strings.Join(deviceIDs(devices), ", "))
}

// waitMessage is what an answer other than a grant here means for the user:
// "queued: …", "denied: …", "elsewhere: …" or "stopping: …".
func waitMessage(order psg.Order) string {
	var refusal psg.Refusal
	if order.Refusal != nil {
		refusal = *order.Refusal
	}
	switch order.Kind {
	case psg.Stop:
		return "stopping: " + cmp.Or(refusal.Summary, "the controller counts this allocation as over")
	case psg.Steer, psg.Grant: // a grant for another node is a plan for that node
		planned := "elsewhere: planned on " + string(cmp.Or(order.Node, refusal.Node))
		if refusal.Summary == "" {
			return planned
		}
		return planned + ": " + refusal.Summary
	}
	return fmt.Sprintf("%s: %s", cmp.Or(refusal.State, psg.Queued), cmp.Or(refusal.Summary, "waiting for a decision"))
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
