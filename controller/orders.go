package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/internal/flood"
	"github.com/psgrid/psg/ledger"
)

const (
	// orderWithin is how long an agent may take to report on an order.
	orderWithin = 5 * time.Second
	// keptReports is how many reports of a node are kept for people, the newest, and
	// maxReportText how much of what each says and names, in bytes.
	keptReports   = 16
	maxReportText = 1024
)

// Agents gives orders to the nodes' agents for a controller that leads, and keeps
// what they report. Neither is recorded in the ledger: an order lasts for its
// lease, and is repeated or given anew by the next leader.
type Agents struct {
	decider *Controller
	send    func(psg.Order) error

	giving sync.Mutex // while an order is numbered and sent; before mu

	mu       sync.Mutex
	epoch    psg.Epoch
	sequence uint64 // of the last order of the epoch
	waiting  map[awaited]chan psg.Report
	reports  map[psg.NodeID][]psg.Report
	counts   map[ReportCount]uint64
	logged   flood.Limit // reports

	// Touched by Entrust alone.
	entrusted map[psg.NodeID]bool
	judged    map[psg.WorkloadID]judged
}

// awaited is an order whose report somebody waits for.
type awaited struct {
	node     psg.NodeID
	epoch    psg.Epoch
	sequence uint64
}

// ReportCount is one kind of report, of which there were some.
type ReportCount struct {
	Kind    psg.OrderKind
	State   psg.ReportState
	Unasked bool
}

// NewAgents returns what gives orders for decider by send, which must not block.
func NewAgents(decider *Controller, send func(psg.Order) error) *Agents {
	return &Agents{
		decider: decider, send: send,
		waiting: map[awaited]chan psg.Report{}, reports: map[psg.NodeID][]psg.Report{}, counts: map[ReportCount]uint64{},
		entrusted: map[psg.NodeID]bool{}, judged: map[psg.WorkloadID]judged{},
	}
}

// Command has a node's agent carry out one order, and returns its report; of an
// eviction and a drain, that it has begun. What an orchestrator runs is evicted
// through it, since it would start again what the agent ends.
//
// Errors: psg.ErrInvalid, psg.ErrUnknown (no such node, or no such allocation on
// it), psg.ErrNotLeader, psg.ErrUnavailable (no report came in time: the order may
// have been carried out).
func (a *Agents) Command(ctx context.Context, order psg.Order) (psg.Report, error) {
	if err := a.decider.mustLead(); err != nil {
		return psg.Report{}, err
	}
	if err := a.complete(&order); err != nil {
		return psg.Report{}, err
	}
	if to := a.decider.steers.orchestrator(); order.Kind == psg.Evict && to != nil {
		return a.stop(ctx, order, to)
	}
	told, forget, err := a.give(&order)
	defer forget()
	if err != nil {
		return psg.Report{}, fmt.Errorf("order to node %s: %w (%w)", order.Node, err, psg.ErrUnavailable)
	}
	limit := time.NewTimer(orderWithin)
	defer limit.Stop()
	select {
	case r := <-told:
		return r, nil
	case <-ctx.Done():
		return psg.Report{}, ctx.Err()
	case <-limit.C:
		return psg.Report{}, fmt.Errorf("node %s did not report within %s: %w", order.Node, orderWithin, psg.ErrUnavailable)
	}
}

// complete checks an order and fills in what the ledger knows of its allocation.
func (a *Agents) complete(order *psg.Order) error {
	switch order.Kind {
	case psg.Throttle, psg.Freeze, psg.Evict:
		if order.Alloc == "" {
			return fmt.Errorf("%s: no allocation: %w", order.Kind, psg.ErrInvalid)
		}
	case psg.Thaw, psg.Drain:
	default:
		return fmt.Errorf("%q is no order to an agent: %w", order.Kind, psg.ErrInvalid)
	}
	if err := order.Limit.Validate(); err != nil {
		return fmt.Errorf("limit: %w: %w", err, psg.ErrInvalid)
	}
	view := a.decider.Snapshot()
	if order.Alloc == "" {
		if _, known := view.Row(order.Node); !known {
			return fmt.Errorf("node %q: %w", order.Node, psg.ErrUnknown)
		}
		return nil
	}
	for p := range view.Placements.All() {
		if p.Ask.Alloc == order.Alloc && (order.Node == "" || order.Node == p.Node) {
			order.Node, order.Ask, order.Workload = p.Node, p.Ask.ID, p.Ask.Workload
			return nil
		}
	}
	return fmt.Errorf("allocation %q: %w: it holds no room", order.Alloc, psg.ErrUnknown)
}

// stop has the orchestrator end an allocation.
func (a *Agents) stop(ctx context.Context, order psg.Order, to Orchestrator) (psg.Report, error) {
	if err := to.Stop(ctx, order.Alloc); err != nil {
		return psg.Report{}, fmt.Errorf("stop %s: %w", order.Alloc, err)
	}
	r := psg.Report{
		Node: order.Node, Kind: order.Kind, Epoch: a.decider.epoch(), Ask: order.Ask, Alloc: order.Alloc,
		State: psg.ReportBegun, Reason: "stopped through the orchestrator, within its own deadline", At: time.Now(),
	}
	a.Reported(r)
	return r, nil
}

// give numbers an order and sends it. One that was numbered before another is
// sent before it: an agent refuses the lower number after the higher.
func (a *Agents) give(order *psg.Order) (told <-chan psg.Report, forget func(), err error) {
	a.giving.Lock()
	defer a.giving.Unlock()
	told, forget = a.stamp(order)
	return told, forget, a.send(*order)
}

// stamp numbers an order, after all others of the epoch, and listens for its
// report until forget is called.
func (a *Agents) stamp(order *psg.Order) (told <-chan psg.Report, forget func()) {
	epoch := a.decider.epoch()
	a.mu.Lock()
	defer a.mu.Unlock()
	if epoch != a.epoch {
		a.epoch, a.sequence = epoch, 0
	}
	a.sequence++
	order.Epoch, order.Sequence = a.epoch, a.sequence
	key := awaited{order.Node, order.Epoch, order.Sequence}
	c := make(chan psg.Report, 1)
	a.waiting[key] = c
	return c, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.waiting, key)
	}
}

// Reported takes in what an agent reports. Reports of nodes that are not known
// are counted, and not kept.
func (a *Agents) Reported(r psg.Report) {
	known := false
	r.Reason, r.Alloc, r.Ask = cut(r.Reason), cut(r.Alloc), cut(r.Ask)
	a.decider.view(func(s *ledger.State) { known = s.Node(r.Node) != nil })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.show(r)
	a.counts[ReportCount{r.Kind, r.State, r.Unasked}]++
	if told := a.waiting[awaited{r.Node, r.Epoch, r.Sequence}]; told != nil && !r.Unasked {
		select {
		case told <- r:
		default: // the first is what is waited for
		}
	}
	if !known {
		return
	}
	kept := append(a.reports[r.Node], r)
	a.reports[r.Node] = kept[max(0, len(kept)-keptReports):]
}

// show logs a report, unless they come as a flood.
func (a *Agents) show(r psg.Report) {
	left, ok := a.logged.Take(time.Now())
	if !ok {
		return
	}
	log := a.decider.config.Log.Info
	if r.State == psg.ReportFailed || r.State == psg.ReportRefused {
		log = a.decider.config.Log.Warn
	}
	log("agent reports", "node", r.Node, "order", r.Kind, "alloc", r.Alloc, "state", r.State, "reason", r.Reason,
		"unasked", r.Unasked, "epoch", r.Epoch, "sequence", r.Sequence, "not_logged_before", left)
}

// cut is the beginning of a text, if it is too long to be kept.
func cut[S ~string](text S) S {
	if len(text) <= maxReportText {
		return text
	}
	return S(strings.ToValidUTF8(string(text[:maxReportText]), "")) + "…"
}

// Reports returns the last reports of a node, the oldest first.
func (a *Agents) Reports(node psg.NodeID) []psg.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reports[node])
}

// Counts says how many reports of each kind there were since this controller
// started.
func (a *Agents) Counts() map[ReportCount]uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := make(map[ReportCount]uint64, len(a.counts))
	for kind, n := range a.counts {
		counts[kind] = n
	}
	return counts
}
