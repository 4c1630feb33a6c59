package agent

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
	"github.com/psgrid/psg/agent/heal"
)

const (
	// maxActs bounds what the detector may have decided and is not done yet.
	maxActs = 4 * heal.MaxHolds
	// healLease is how long the healer's throttles hold at most: the detector ends
	// them sooner.
	healLease = 6 * time.Minute
	// leastGap is the shortest time between two looks that slow probes ask for.
	leastGap = 100 * time.Millisecond

	floorMemoryMB = 16 // that one is left with who asked for none
	floorIOBps    = 1 << 20
)

// healer looks for noisy neighbours within the leader's mandate. The agent's loop
// shows it the node; what it decides goes to acts.
type healer struct {
	mode    Healing
	log     *slog.Logger
	proc    string
	acts    chan heal.Act
	urgent  chan struct{} // holds a token while somebody may suffer
	changed chan struct{} // holds a token while the probes are to be looked through

	mu       sync.Mutex
	detector *heal.Detector
	mandate  *psg.Mandate // nil: none
	stamp    stamp
	until    time.Time
	floors   map[psg.AllocID]psg.Resources // CPU in heal.MilliCores
	probed   map[psg.AllocID][]time.Duration
	looked   time.Time
	reading  heal.Reading // reused
}

func newHealer(config OrdersConfig) *healer {
	return &healer{
		mode: config.Healing, log: config.Log, proc: config.Proc,
		acts:     make(chan heal.Act, maxActs),
		urgent:   make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		detector: heal.New(),
		probed:   map[psg.AllocID][]time.Duration{},
	}
}

// entrust replaces the mandate.
func (h *healer) entrust(m psg.Mandate, at stamp, until time.Time, cores int) error {
	if m.CPU <= 0 {
		return fmt.Errorf("mandate: the node's CPU is %d MHz", m.CPU)
	}
	floors := make(map[psg.AllocID]psg.Resources, len(m.Charges))
	charges := slices.Clone(m.Charges)
	for i := range charges {
		c := &charges[i]
		if _, twice := floors[c.Alloc]; twice {
			return fmt.Errorf("mandate: %s is charged twice", c.Alloc)
		}
		if c.Protected && c.Yields {
			return fmt.Errorf("mandate: %s is both protected and to yield", c.Alloc)
		}
		if err := checkProbe(c.Probe); err != nil {
			return fmt.Errorf("mandate: probe of %s: %w", c.Alloc, err)
		}
		c.Floor[psg.CPU] = c.Floor[psg.CPU] * int64(cores) * heal.MilliCores / m.CPU
		floors[c.Alloc] = c.Floor
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m.Charges = charges
	h.mandate, h.stamp, h.until, h.floors = &m, at, until, floors
	maps.DeleteFunc(h.probed, func(alloc psg.AllocID, _ []time.Duration) bool { _, charged := floors[alloc]; return !charged })
	h.detector.Entrust(charges)
	token(h.changed)
	return nil
}

// expire takes the mandate back once it is over, and reports whether there is
// none now.
func (h *healer) expire(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mandate != nil && !now.Before(h.until) {
		h.log.Warn("the mandate is over: nobody is throttled unasked until there is another", "epoch", h.stamp.Epoch)
		h.mandate, h.floors = nil, nil
		h.detector.Entrust(nil)
		clear(h.probed)
		token(h.changed)
	}
	return h.mandate == nil
}

// coreMHz is what one core makes: by the mandate, else by the kernel; 0 if
// neither tells.
func (h *healer) coreMHz(cpu cpuInfo) float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mandate != nil {
		return float64(h.mandate.CPU) / float64(cpu.cores)
	}
	return cpu.mhz
}

// token puts a token where there is none.
func token(into chan<- struct{}) {
	select {
	case into <- struct{}{}:
	default:
	}
}

// observe shows the orders the node, once for each collection, and adds to what
// was measured: whether somebody suffers by others or did lately, how many holds
// are in force, and whether the node drains. It may be called on nil.
func (o *Orders) observe(now time.Time, c *Collector) {
	if o == nil {
		return
	}
	o.tenants.see(c.Uses())
	if o.config.Healing != HealOff {
		c.metric("noisy").put(now, flag(o.healer.look(now, c)))
	}
	c.metric("held_back").put(now, float64(o.book.held.Load()))
	c.metric("draining").put(now, flag(o.book.drains.Load()))
}

// look shows the detector the node, passes on what it decides, and reports
// whether the node is noisy.
func (h *healer) look(now time.Time, c *Collector) (noisy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.looked = now
	h.read(now, c)
	for _, act := range h.detector.Observe(h.reading) {
		select {
		case h.acts <- act:
		default: // a hold that is not let go ends with its lease
			h.log.Error("not done: too much is to be done already", "alloc", act.Alloc, "hold", act.Hold)
			if act.Hold {
				h.detector.Failed(act.Alloc)
			}
		}
	}
	return h.detector.Noisy()
}

// read makes one reading of what was collected.
func (h *healer) read(now time.Time, c *Collector) {
	h.reading.At = now
	h.reading.Steal, _ = c.Last("cpu_steal_percent")
	for r, metric := range [heal.Resources]string{"pressure_cpu_some_percent", "pressure_memory_some_percent", "pressure_io_some_percent"} {
		v, ok := c.Last(metric)
		if h.reading.Pressure[r] = v; !ok {
			h.reading.Pressure[r] = math.NaN()
		}
	}
	h.reading.Allocs = h.reading.Allocs[:0]
	for _, u := range c.Uses() {
		last := len(h.reading.Allocs) - 1
		if last < 0 || h.reading.Allocs[last].ID != u.Alloc {
			h.reading.Allocs = append(h.reading.Allocs, heal.Alloc{ID: u.Alloc, Pressure: math.NaN(), Probes: h.probed[u.Alloc]})
			delete(h.probed, u.Alloc)
			last++
		}
		h.reading.Allocs[last].Add(
			heal.Amounts{u.CPUPercent / 100, u.MemoryMB, u.ReadMBps + u.WriteMBps}, u.ThrottledPercent,
			u.CPUPressurePercent, u.MemoryPressurePercent, u.IOPressurePercent)
	}
}

// probe takes in how long a probe took. One that was too slow has the node looked
// at soon, as has any while somebody suffers or a hold is on trial.
func (h *healer) probe(alloc psg.AllocID, took, objective time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, charged := h.floors[alloc]; !charged {
		return // the mandate changed meanwhile
	}
	if len(h.probed[alloc]) < maxProbed {
		h.probed[alloc] = append(h.probed[alloc], took)
	}
	if (took > objective || h.detector.Urgent()) && time.Since(h.looked) >= leastGap {
		token(h.urgent)
	}
}

// act does what the detector decides, until ctx ends.
func (o *Orders) act(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case act := <-o.healer.acts:
			o.heal(act)
		}
	}
}

// heal holds one allocation back, or lets it go.
func (o *Orders) heal(act heal.Act) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if !act.Hold {
		if h, found := o.book.find(psg.Throttle, act.Alloc); found && h.Unasked {
			o.tried(o.letGo(h, act.Why, now))
		}
		return
	}
	at, limit, cores, trusted := o.healer.limit(act)
	limit = possible(limit, o.tenants.of(act.Alloc))
	r := psg.Report{
		Node: o.config.Node, Kind: psg.Throttle, Epoch: at.Epoch, Sequence: at.Sequence,
		Alloc: act.Alloc, Unasked: true, State: psg.ReportDone, Reason: act.Why, Until: now.Add(healLease),
	}
	_, ordered := o.book.find(psg.Throttle, act.Alloc)
	switch {
	case !trusted:
		return // the mandate went meanwhile
	case ordered:
		r.State, r.Reason = psg.ReportRefused, "throttled by order already: "+act.Why
	case o.config.Healing == HealReport:
		r.State, r.Reason = psg.ReportRefused, "this agent only reports: "+act.Why
	default:
		h := hold{Kind: psg.Throttle, Alloc: act.Alloc, Stamp: at, Unasked: true, Until: r.Until}
		if err := o.holdDown(h, limit, cores); err != nil {
			r.State, r.Reason = psg.ReportFailed, err.Error()
		}
	}
	if r.State != psg.ReportDone {
		r.Until = time.Time{}
	}
	r.At = time.Now()
	o.healer.carriedOut(act.Alloc, r.At, r.State != psg.ReportFailed)
	o.tell(r)
}

// carriedOut says what has come of a hold. One that is only reported counts as done.
func (h *healer) carriedOut(alloc psg.AllocID, at time.Time, done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if done {
		h.detector.Done(alloc, at)
	} else {
		h.detector.Failed(alloc)
	}
}

// limit is an allocation's floor, in what it is to be held in and of CPU, and the
// mandate that lets it be held.
func (h *healer) limit(act heal.Act) (at stamp, l hand.Limit, cores float64, trusted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	floor, trusted := h.floors[act.Alloc]
	cores = max(leastCores, float64(floor[psg.CPU])/heal.MilliCores)
	if act.What[heal.CPU] {
		l.Cores = cores
	}
	if act.What[heal.Memory] {
		l.MemoryMB = max(floorMemoryMB, floor[psg.Memory])
	}
	if act.What[heal.IO] {
		l.ReadBps, l.WriteBps = floorIOBps, floorIOBps
	}
	return h.stamp, l, cores, trusted
}
