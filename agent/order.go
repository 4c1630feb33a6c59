package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

// Reporter takes reports away from the node, in the order it is given them. An
// error means that the report was not taken; it is tried again.
type Reporter interface {
	Report(ctx context.Context, r psg.Report) error
}

// Healing is what an agent does by itself about a noisy neighbour.
type Healing string

// The ways of healing.
const (
	HealAct    Healing = "act"    // throttle who is to blame, if the mandate lets it
	HealReport Healing = "report" // say who it would throttle
	HealOff    Healing = "off"    // do not look
)

// OrdersConfig says how orders are carried out. Zero values mean the defaults.
type OrdersConfig struct {
	Node psg.NodeID   // that orders must be for; required
	Log  *slog.Logger // required
	Dir  string       // of the journal; required, and best on a file system in memory, as control groups are

	Proc    string  // the proc file system; default "/proc"
	Sys     string  // the sys file system; default "/sys"
	Healing Healing // default HealAct
	Reports int     // kept while the Reporter fails, the newest; default 256
}

func (c OrdersConfig) withDefaults() OrdersConfig {
	c.Proc, c.Sys = cmp.Or(c.Proc, "/proc"), cmp.Or(c.Sys, "/sys")
	c.Healing, c.Reports = cmp.Or(c.Healing, HealAct), cmp.Or(c.Reports, 256)
	return c
}

// Validate reports the first field that makes no sense.
func (c OrdersConfig) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Node == "":
		return errors.New("orders: no node ID")
	case c.Log == nil:
		return errors.New("orders: no logger")
	case c.Dir == "":
		return errors.New("orders: no directory for the journal")
	case c.Healing != HealAct && c.Healing != HealReport && c.Healing != HealOff:
		return fmt.Errorf("orders: healing %q is not %s, %s or %s", c.Healing, HealAct, HealReport, HealOff)
	case c.Reports < 1 || c.Reports > maxBuffer:
		return fmt.Errorf("orders: room for %d reports is outside 1..%d", c.Reports, maxBuffer)
	}
	return nil
}

// How long what orders ask for lasts.
const (
	defaultHold = time.Minute      // of a throttle or freeze without a deadline
	maxHold     = time.Hour        // of a throttle
	maxFreeze   = 10 * time.Minute // of a freeze
	maxMandate  = 10 * time.Minute
	defaultEnd  = 5 * time.Second // of an evict without a deadline
	maxEnd      = time.Hour
	// sweepEvery is how often it is looked for what is over.
	sweepEvery = 250 * time.Millisecond
)

// Orders carries out what the leader orders the node to do, and heals it within
// the leader's mandate. All that it holds back has a lease, and stands in a
// journal before it is held; NewOrders undoes what an agent before it left behind
// past its lease, and Run the rest when it ends. Evictions stand there too: Run
// completes those that an agent before it had begun.
type Orders struct {
	config   OrdersConfig
	hand     hand.Hand
	write    func(hand.Write) error // hand.Do
	cpu      cpuInfo
	reporter Reporter
	reports  reportBox
	logged   logLimit // reports
	failures logLimit // what could not be undone
	tenants  tenants
	healer   *healer
	ends     chan ending // evictions to carry out
	resumed  []ending    // those that an agent before this one had begun

	mu   sync.Mutex // above book and the groups it is about: one order at a time
	book *book
}

// NewOrders reads the journal and undoes what is past its lease.
func NewOrders(config OrdersConfig, reporter Reporter) (*Orders, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	o := &Orders{
		config: config, reporter: reporter, write: hand.Do,
		cpu:     readCPUInfo(config.Proc),
		reports: newReportBox(config.Reports),
		healer:  newHealer(config),
		ends:    make(chan ending, maxEndings),
	}
	var err error
	if o.book, err = openBook(config.Dir); err != nil {
		return nil, err
	}
	o.resumed = slices.Clone(o.book.Endings)
	if o.hand.Devices, err = hand.Devices(config.Sys); err != nil {
		config.Log.Warn("I/O cannot be limited", "error", err)
	}
	o.sweep(time.Now())
	return o, nil
}

// Node is the node that orders must be for.
func (o *Orders) Node() psg.NodeID { return o.config.Node }

// Run undoes what is over, heals, evicts and reports until ctx ends; then it
// undoes all that is held. It is called once.
func (o *Orders) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { o.sendReports(ctx) })
	parts.Go(func() { o.runEndings(ctx) })
	parts.Go(func() { o.healer.runProbes(ctx, &o.tenants) })
	parts.Go(func() { o.act(ctx) })
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case now := <-tick.C:
			o.sweep(now)
		}
	}
	parts.Wait()
	return o.Undo("the agent ends")
}

// Undo lets go of everybody, and says why.
func (o *Orders) Undo(why string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var failed error
	for _, h := range o.book.all() {
		failed = errors.Join(failed, o.letGo(h, why, time.Now()))
	}
	return failed
}

// sweep lets go of what is past its lease, begins the end of a drain, and takes
// back the mandate when it is over.
func (o *Orders) sweep(now time.Time) {
	ended := o.healer.expire(now)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.book.all() {
		switch {
		case !now.Before(h.Until):
			o.tried(o.letGo(h, "its lease is over", now))
		case h.Unasked && ended:
			o.tried(o.letGo(h, "the mandate is over", now))
		}
	}
	if d := o.book.Draining; d != nil && !d.At.IsZero() && !now.Before(d.At) && o.tenants.known() {
		o.emptyNode(d.Report)
		d.At = time.Time{} // last: who is evicted already is not again
		o.tried(o.book.save())
	}
}

// urgent holds a token while the node is to be looked at soon. It is nil, which
// never does, without orders.
func (o *Orders) urgent() <-chan struct{} {
	if o == nil {
		return nil
	}
	return o.healer.urgent
}

// tried logs what could not be undone; it is tried again at the next sweep.
func (o *Orders) tried(err error) {
	if err == nil {
		return
	}
	if left, ok := o.failures.take(time.Now()); ok {
		o.config.Log.Error("not undone", "error", err, "not_logged_before", left)
	}
}
