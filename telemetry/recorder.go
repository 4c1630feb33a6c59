package telemetry

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"github.com/psgrid/psg"
)

// SlotSpan is how long one slot is.
const SlotSpan = 10 * time.Second

// keptSlots is how many whole slots are kept: five minutes.
const keptSlots = 30

// Config says how a Recorder works. Zero values mean the defaults.
type Config struct {
	FullEvery  time.Duration // between full samples; default 60 s
	AllocEvery time.Duration // between the last values of allocations; default 1 s
	// CPUMHz is what all CPUs of the node make together, and CPUs how many they
	// are. Without them there is no projection of CPU use.
	CPUMHz int64
	CPUs   int
}

func (c Config) withDefaults() Config {
	c.FullEvery = cmp.Or(c.FullEvery, time.Minute)
	c.AllocEvery = cmp.Or(c.AllocEvery, time.Second)
	return c
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.FullEvery < time.Second:
		return fmt.Errorf("telemetry: a full sample every %s is more often than every second", c.FullEvery)
	case c.AllocEvery < 0:
		return fmt.Errorf("telemetry: allocations every %s", c.AllocEvery)
	case c.CPUMHz < 0 || c.CPUMHz > psg.MaxQuantity || c.CPUs < 0:
		return fmt.Errorf("telemetry: %d CPUs of %d MHz", c.CPUs, c.CPUMHz)
	}
	return nil
}

// Recorder turns one node's measurements into samples. It is for one goroutine,
// but for Resync.
type Recorder struct {
	node   psg.NodeID
	config Config
	sizes  mapping.IndexMapping

	start    time.Time // of the session; with the monotonic clock
	session  uint64
	sequence uint64
	slot     int64 // number of the open one

	series   []*Series // those that are measured, ascending by ID
	handles  map[name]*Series
	lastID   psg.SeriesID
	declared []*Series      // since the last Cut, as are gone, uses and forecasts
	gone     []psg.SeriesID // kept until the next Cut
	changed  []*Series      // those with news

	inventory *psg.Inventory // nil: not known
	found     bool           // inventory is news

	slots     []psg.Slot // whole ones, oldest first
	due       []psg.Slot // of them those that are still to be sent, newest last
	full      bool       // the next Cut is full
	nextFull  time.Time
	nextAlloc time.Time
	resync    atomic.Bool

	scratch distribution
	errors  [keptErrors]float32 // of forecasts, while they are sorted
}

type name struct {
	alloc  psg.AllocID
	metric string
}

// NewRecorder returns a Recorder of a node, or an error if config makes no
// sense. Its session begins with the first Put or Cut.
func NewRecorder(node psg.NodeID, config Config) (*Recorder, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Recorder{node: node, config: config.withDefaults(), sizes: newSizes(), handles: map[name]*Series{}}, nil
}

// Node returns the series of one of the node's own metrics: the same for the
// same name.
func (r *Recorder) Node(metric string) *Series { return r.handle(name{"", metric}) }

// Alloc returns the series of one metric of an allocation: the same for the
// same names, until Forget.
func (r *Recorder) Alloc(alloc psg.AllocID, metric string) *Series {
	return r.handle(name{alloc, metric})
}

func (r *Recorder) handle(n name) *Series {
	s := r.handles[n]
	if s == nil {
		s = &Series{recorder: r, name: n, scale: Scale(n.metric)}
		r.handles[n] = s
	}
	return s
}

// All yields the series that are measured now, in the order in which they first
// were.
func (r *Recorder) All() iter.Seq[*Series] { return slices.Values(r.series) }

// Forget drops the series of an allocation that is over: what is still put into
// them counts for nothing.
func (r *Recorder) Forget(alloc psg.AllocID) {
	for _, s := range slices.Clone(r.series) {
		if s.name.alloc == alloc {
			s.Absent()
		}
	}
	for n, s := range r.handles {
		if n.alloc == alloc && alloc != "" {
			s.recorder = nil
			delete(r.handles, n)
		}
	}
}

// PutDevices takes every device that is on the node now, by ID. They are the
// Recorder's from then on.
func (r *Recorder) PutDevices(devices []psg.Device) {
	if r.inventory == nil || !slices.EqualFunc(r.inventory.Devices, devices, psg.Device.Equal) {
		r.inventory, r.found = &psg.Inventory{Devices: devices}, true
	}
}

// Resync has the next Cut be full: what was cut before may not have arrived. It
// may be called from any goroutine.
func (r *Recorder) Resync() { r.resync.Store(true) }

// clock is a moment by the session's clock.
func (r *Recorder) clock(at time.Time) time.Time { return r.start.Add(at.Sub(r.start)) }

// maxStep is by how much the wall clock may differ from the session's before
// another session begins.
const maxStep = 5 * time.Second

// advance begins a session if need be, and closes the open slot when at is
// beyond it.
func (r *Recorder) advance(at time.Time) {
	if r.start.IsZero() || r.clock(at).Sub(at.Round(0)).Abs() > maxStep {
		r.begin(at)
	}
	number := floor(r.clock(at))
	if number <= r.slot {
		return
	}
	r.close()
	r.slot = number
}

// begin starts a session: nothing of an earlier one is known to the readers.
func (r *Recorder) begin(at time.Time) {
	r.start = at
	r.session = max(r.session+1, uint64(max(0, at.UnixMilli())))
	r.sequence, r.slot = 0, floor(at)
	r.slots, r.due, r.full = nil, nil, true
	for _, s := range r.series {
		s.runs = s.runs[:0]
	}
}

// floor is the number of the slot that a moment is in.
func floor(at time.Time) int64 {
	ms, span := at.UnixMilli(), SlotSpan.Milliseconds()
	number := ms / span
	if ms%span < 0 {
		number--
	}
	return number
}

// maxQuiet is for how many slots a series may go without a value before it
// counts as absent.
const maxQuiet = 12

// close makes a whole slot of the open one.
func (r *Recorder) close() {
	var data []byte
	var before psg.SeriesID
	for _, s := range slices.Clone(r.series) {
		if len(s.runs) == 0 {
			if s.quiet++; s.quiet >= maxQuiet {
				s.Absent()
			}
			continue
		}
		s.quiet = 0
		s.foresee(meanOf(s.runs))
		if s.name.alloc == "" {
			r.scratch.summarize(r.sizes, s.id, s.runs)
			data = r.scratch.append(data, before)
			before = s.id
		} else {
			s.news.use = s.use.update(s.runs) || s.news.use
		}
		if s.news != (news{}) {
			r.changed = append(r.changed, s)
		}
		s.runs = s.runs[:0]
	}
	r.keep(psg.Slot{Number: r.slot, Data: data})
}

// keep takes up a whole slot in place of the oldest.
func (r *Recorder) keep(slot psg.Slot) {
	if len(r.slots) == keptSlots {
		r.slots = slices.Delete(r.slots, 0, 1)
	}
	r.slots = append(r.slots, slot)
	if len(r.due) == keptSlots {
		r.due = slices.Delete(r.due, 0, 1)
	}
	r.due = append(r.due, slot)
}
