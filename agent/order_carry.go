package agent

import (
	"errors"
	"fmt"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

var (
	errElsewhere = errors.New("no such allocation runs here")
	errDevices   = errors.New("only CPU, memory and I/O operations can be limited")
)

// maxID bounds what an order names, in bytes: its answer is kept.
const maxID = 512

// CarryOut carries out one order, or says why not, and has that reported. What
// was carried out already is answered as before. It may be called by any
// goroutine, and before Run.
func (o *Orders) CarryOut(order psg.Order) psg.Report {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	report, repeated := o.decide(order, now)
	if !repeated {
		o.tell(report)
	}
	return report
}

// decide checks an order and carries it out.
func (o *Orders) decide(order psg.Order, now time.Time) (report psg.Report, repeated bool) {
	report = psg.Report{
		Node: o.config.Node, Kind: order.Kind, Epoch: order.Epoch, Sequence: order.Sequence,
		Ask: order.Ask, Alloc: order.Alloc, State: psg.ReportRefused, At: now,
	}
	if report.Reason = o.misfit(order); report.Reason != "" {
		return report, false
	}
	at := stamp{order.Epoch, order.Sequence}
	if order.Epoch < o.book.Epoch {
		report.Reason = fmt.Sprintf("epoch %d is over: epoch %d leads", order.Epoch, o.book.Epoch)
		return report, false
	}
	last, known := o.book.Answers[order.Alloc]
	switch c := at.compare(last.Stamp); {
	case known && c == 0 && last.Report.Kind == order.Kind:
		return last.Report, true
	case known && c <= 0:
		report.Reason = fmt.Sprintf("order %d of epoch %d came later", last.Stamp.Sequence, last.Stamp.Epoch)
		return report, false
	case at.compare(o.book.Thawed) < 0:
		report.Reason = fmt.Sprintf("order %d of epoch %d, to thaw all, came later", o.book.Thawed.Sequence, o.book.Thawed.Epoch)
		return report, false
	}
	o.book.Epoch = order.Epoch
	until, err := o.carryOut(order, at, now)
	report.State, report.Until = psg.ReportDone, until
	if order.Kind == psg.Evict || order.Kind == psg.Drain {
		report.State = psg.ReportBegun
	}
	if err != nil {
		report.State, report.Reason, report.Until = psg.ReportFailed, err.Error(), time.Time{}
	}
	o.book.remember(at, report)
	if err := o.book.save(); err != nil {
		o.config.Log.Error("journal not written", "error", err)
	}
	return report, false
}

// misfit says why an order makes no sense here, if so.
func (o *Orders) misfit(order psg.Order) string {
	most := map[psg.OrderKind]time.Duration{
		psg.Throttle: maxHold, psg.Freeze: maxFreeze, psg.Thaw: maxHold,
		psg.Evict: maxEnd, psg.Drain: maxEnd, psg.Entrust: maxMandate,
	}[order.Kind]
	nodes := order.Kind == psg.Drain || order.Kind == psg.Entrust
	switch {
	case order.Node != o.config.Node:
		return fmt.Sprintf("for node %q, this is %q", order.Node, o.config.Node)
	case most == 0:
		return fmt.Sprintf("%q is not for a node's agent", order.Kind)
	case max(len(order.Alloc), len(order.Ask)) > maxID:
		return fmt.Sprintf("an ID of more than %d bytes", maxID)
	case order.Epoch == 0:
		return "no epoch"
	case order.Sequence == 0:
		return "no sequence"
	case order.Deadline < 0 || order.Deadline > most:
		return fmt.Sprintf("deadline %s is outside 0..%s", order.Deadline, most)
	case nodes && order.Alloc != "":
		return "it is about the node, not about an allocation"
	case !nodes && order.Kind != psg.Thaw && order.Alloc == "":
		return "no allocation"
	case order.Kind == psg.Entrust && order.Mandate == nil:
		return "no mandate"
	}
	return ""
}

func (o *Orders) carryOut(order psg.Order, at stamp, now time.Time) (until time.Time, err error) {
	switch order.Kind {
	case psg.Throttle, psg.Freeze:
		limit := hand.Limit{Frozen: true}
		if order.Kind == psg.Throttle {
			if limit, err = o.limit(order.Limit); err != nil {
				return until, err
			}
		}
		h := hold{Kind: order.Kind, Alloc: order.Alloc, Stamp: at, Ask: order.Ask, Until: now.Add(orElse(order.Deadline, defaultHold))}
		return h.Until, o.holdBack(h, limit)
	case psg.Thaw:
		return until, o.thaw(order.Alloc, at)
	case psg.Evict:
		return now.Add(orElse(order.Deadline, defaultEnd)), o.evict(order, now)
	case psg.Drain:
		return o.drain(order, now)
	case psg.Entrust:
		until = now.Add(orElse(order.Deadline, defaultHold))
		return until, o.healer.entrust(*order.Mandate, at, until, o.cpu.cores)
	}
	return until, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// limit converts an order's limit to what control groups take.
func (o *Orders) limit(r psg.Resources) (hand.Limit, error) {
	l := hand.Limit{MemoryMB: r[psg.Memory], ReadOps: r[psg.IOPS], WriteOps: r[psg.IOPS]}
	if mhz := r[psg.CPU]; mhz > 0 {
		core := o.healer.coreMHz(o.cpu)
		if core == 0 {
			return l, errors.New("limit CPU: the MHz of a core are not known until a mandate tells them")
		}
		l.Cores = float64(mhz) / core
	}
	r[psg.CPU], r[psg.Memory], r[psg.IOPS] = 0, 0, 0
	if r != (psg.Resources{}) {
		return l, fmt.Errorf("%s: %w", r, errDevices)
	}
	if l == (hand.Limit{}) {
		return l, errors.New("a throttle without a limit")
	}
	return l, nil
}

// holdBack puts an allocation below a limit: in the journal first, and all of it
// or nothing.
func (o *Orders) holdBack(h hold, limit hand.Limit) error {
	tasks := o.tenants.of(h.Alloc)
	if len(tasks) == 0 {
		return errElsewhere
	}
	for _, t := range tasks {
		if err := hand.NotOwn(t.groups); err != nil { // nobody would be left to undo it
			return fmt.Errorf("task %q: %w", t.name, err)
		}
	}
	before, replaces := o.book.find(h.Kind, h.Alloc)
	if !replaces {
		return o.begin(h, tasks, limit)
	}
	if err := o.undo(before); err != nil {
		return fmt.Errorf("replace a limit: %w", err)
	}
	err := o.begin(h, tasks, limit)
	if _, stuck := o.book.find(h.Kind, h.Alloc); err != nil && !stuck {
		return errors.Join(err, o.do(before)) // what was held stays held
	}
	return err
}

// begin plans and does what a hold is to change.
func (o *Orders) begin(h hold, tasks []tenant, limit hand.Limit) error {
	for _, t := range tasks {
		writes, err := o.hand.Plan(t.groups, t.part(limit))
		if err != nil {
			return fmt.Errorf("task %q: %w", t.name, err)
		}
		h.Writes = append(h.Writes, writes...)
	}
	return o.do(h)
}

// do makes the changes of a hold.
func (o *Orders) do(h hold) error {
	o.book.add(h)
	if err := o.book.save(); err != nil {
		o.book.remove(h)
		return err
	}
	for i, w := range h.Writes {
		if err := o.write(w); err != nil {
			h.Writes = h.Writes[:i]
			return errors.Join(fmt.Errorf("%s: %w", w.File, err), o.undo(h))
		}
	}
	return nil
}

// undo takes back what a hold changed, last first, and forgets it. What cannot be
// taken back stays in the journal.
func (o *Orders) undo(h hold) error {
	var failed error
	for i := range h.Writes {
		failed = errors.Join(failed, hand.Undo(h.Writes[len(h.Writes)-1-i]))
	}
	if failed != nil {
		return fmt.Errorf("undo %s of %s: %w", h.Kind, h.Alloc, failed)
	}
	o.book.remove(h)
	return o.book.save()
}

// letGo undoes a hold and reports that.
func (o *Orders) letGo(h hold, why string, now time.Time) error {
	if err := o.undo(h); err != nil {
		return err
	}
	o.tell(psg.Report{
		Node: o.config.Node, Kind: h.Kind, Epoch: h.Stamp.Epoch, Sequence: h.Stamp.Sequence,
		Ask: h.Ask, Alloc: h.Alloc, Unasked: h.Unasked, State: psg.ReportUndone, Reason: why, At: now,
	})
	return nil
}

// thaw undoes all holds of an allocation, or, without one, of all, and drain.
func (o *Orders) thaw(alloc psg.AllocID, at stamp) error {
	holds := o.book.of(alloc)
	if alloc == "" {
		holds = o.book.all()
		o.book.Thawed, o.book.Draining = at, nil
	}
	var failed error
	for _, h := range holds {
		failed = errors.Join(failed, o.undo(h))
	}
	return failed
}
