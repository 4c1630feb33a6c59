// Package controller runs the decision loop: it takes in what changed, asks
// policy, lets the placement engine choose nodes, commits the result to the
// ledger and tells whoever waits. Cycle is the page to read.
//
// It knows neither Nomad, Kubernetes, NATS, OPA nor gRPC: cmd/psg hands it
// their adapters as the small interfaces below. It keeps no state that the
// ledger does not: a restarted controller replays and knows everything again.
package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/placement"
)

// Log is the durable, totally ordered log behind the ledger. Append adds a
// record at r.Sequence and returns once it is synced; psg.ErrNotLeader means
// another writer was there first, psg.ErrInvalid that it is too large and was
// not added, any other error that the outcome is unknown.
// Replay folds every record after a position, in order; Follow goes on with
// those that are appended meanwhile, until ctx ends. Check reports why deltas
// could never be appended in one record, as psg.ErrInvalid.
type Log interface {
	Append(ctx context.Context, r psg.Record) error
	Replay(ctx context.Context, after uint64, fold func(psg.Record) error) error
	Follow(ctx context.Context, after uint64, fold func(psg.Record) error) error
	Check(deltas ...psg.Delta) error
}

// Policy is one set of rules, which does not change. Rule rules on one workload
// against every node of a snapshot. A rule that fails denies, with its error as
// the reason; Rule returns an error only when ctx ends. Sequel judges placements
// that follow from rulings on one snapshot. Limits bound instances by label.
type Policy interface {
	Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error)
	Sequel(view *psg.Snapshot) psg.Sequel
	Limits() []psg.Limit
}

// Jobs finds a workload that an allocation belongs to before its registration
// was seen. It returns psg.ErrUnknown for one that does not exist.
type Jobs interface {
	Workload(ctx context.Context, id psg.WorkloadID) (psg.Workload, error)
}

// Config sets the controller's bounds. The zero value of a field means its
// default.
type Config struct {
	Name    string          // of this instance, recorded with its epoch; required
	Period  time.Duration   // longest time between two cycles; default 500 ms
	Inbox   int             // facts and asks that may wait for a cycle; default 65,536
	Batch   int             // of those, how many one cycle takes in; default 4,096
	Pending int             // asks that may want a place before more are refused; default 262,144
	Waiters int             // long polls that may be open at once; default 65,536
	Orders  func(psg.Order) // told each order once its record is committed; must not block; optional
	Log     *slog.Logger    // required

	Lease      Lease         // default: this controller is the only one
	Renew      time.Duration // between two tries to take or renew the lease; default 400 ms
	Images     Images        // default: none, the whole log is read
	ImageEvery int           // deltas between two images; default 100,000
	// Improvement is off by default.
	Improvement Improvement
	// SolveFor bounds the choice of nodes in one cycle; what is not reached is left
	// to the next. Default 2 s.
	SolveFor time.Duration
	// Duties runs beside the cycles while this controller leads; its ctx ends
	// with the lead. Optional.
	Duties func(ctx context.Context) error
}

func (c Config) withDefaults() Config {
	if c.Period == 0 {
		c.Period = 500 * time.Millisecond
	}
	if c.Inbox == 0 {
		c.Inbox = 65_536
	}
	if c.Batch == 0 {
		c.Batch = 4_096
	}
	if c.Pending == 0 {
		c.Pending = 262_144
	}
	if c.Waiters == 0 {
		c.Waiters = 65_536
	}
	if c.Orders == nil {
		c.Orders = func(psg.Order) {}
	}
	if c.Lease == nil {
		c.Lease = unopposed{psg.Leader{Name: c.Name}}
	}
	if c.Renew == 0 {
		c.Renew = 400 * time.Millisecond
	}
	if c.Images == nil {
		c.Images = noImages{}
	}
	if c.ImageEvery == 0 {
		c.ImageEvery = 100_000
	}
	if c.Improvement.Moves == 0 {
		c.Improvement.Moves = usualMoves
	}
	if c.SolveFor == 0 {
		c.SolveFor = 2 * time.Second
	}
	if c.Duties == nil {
		c.Duties = func(ctx context.Context) error { <-ctx.Done(); return nil }
	}
	return c
}

// Validate reports the first field that makes no sense.
func (c Config) Validate() error {
	switch {
	case c.Name == "":
		return errors.New("controller: no name")
	case c.Log == nil:
		return errors.New("controller: no logger")
	case c.Period < 0, c.Inbox < 0, c.Batch < 0, c.Pending < 0, c.Waiters < 0, c.Renew < 0, c.ImageEvery < 0,
		c.SolveFor < 0, c.Improvement.Every < 0, c.Improvement.Moves < 0:
		return errors.New("controller: a bound is below zero")
	}
	return nil
}

// Controller is one controller instance.
type Controller struct {
	config    Config
	log       Log
	policy    func() Policy // the rules in force: taken once for all that must go by the same ones
	jobs      Jobs
	inbox     *inbox
	polls     *polls
	steers    *steers
	evictions evictions

	// Touched by Run and the cycle alone.
	engine   *placement.Engine
	dirty    bool                 // something changed since the last solve
	solved   time.Time            // when pending asks were last solved
	trails   map[psg.GangID]trail // gangs that the last cycle left half done
	improved time.Time            // when moves that pay were last looked for
	looks    uint64               // how often they were
	// When those asks that wait elsewhere were last planned on another node, all else
	// being as before.
	replanned map[psg.RequestID]time.Time
	restored  bool // state holds committed records, and nothing else
	unsaved   int  // deltas since the last image

	deadlines deadlines // of what holds room for a time

	inventories inventories // what nodes agree with, as far as that was looked at

	previews chan struct{} // holds a token for each preview that is being made

	unrest   *unrest               // of what idle cycles have moved
	wishes   chan []placement.Move // moves that would pay; at most one list
	carrying chan struct{}         // holds a token from when they are looked for until they are carried out
	images   chan psg.Image        // to be saved; at most one
	saver    chan struct{}         // holds a token while an image is being saved
	// Of the workloads: which are held, and which of those to count anew.
	held, uncounted map[psg.WorkloadID]bool

	mu      sync.RWMutex
	state   *ledger.State // written by Run and the cycle alone, which may read it without mu
	leading bool
	leader  psg.Leader // who holds the lease, as far as is known
	until   time.Time  // while leading: when to stop; zero means never
}

// New returns a controller that has yet to Run. policy hands out the rules in
// force, at once: each cycle asks for them once and keeps to them.
func New(log Log, policy func() Policy, jobs Jobs, config Config) (*Controller, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Controller{
		config: config, log: log, policy: policy, jobs: jobs,
		inbox:     newInbox(config.Inbox),
		polls:     newPolls(config.Waiters),
		steers:    newSteers(),
		unrest:    newUnrest(),
		evictions: evictions{news: make(chan struct{}, 1)},
		state:     ledger.New(),
		previews:  make(chan struct{}, maxPreviews),
		images:    make(chan psg.Image, 1),
		wishes:    make(chan []placement.Move, 1),
		carrying:  make(chan struct{}, 1),
		saver:     make(chan struct{}, 1),
	}, nil
}

// Wake has pending asks decided anew in the next cycle, as after a policy
// reload.
func (c *Controller) Wake() { c.inbox.wake() }

// view runs read on the committed state.
func (c *Controller) view(read func(*ledger.State)) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	read(c.state)
}
