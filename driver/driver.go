package driver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/psgrid/psg"
)

// placeLimit is how long one long poll may take: what a controller may hold it
// for, and some. Beyond it, the controller counts as silent.
const placeLimit = 40 * time.Second

// Driver holds the tasks of one node. Its methods may be called at the same
// time.
type Driver struct {
	launcher []string // command that enters executor.Main, without the directory
	log      *slog.Logger
	events   feed
	reports  reports

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine of the driver

	mu      sync.Mutex // guards what follows
	config  Config
	placer  Placer // nil before Configure
	tasks   map[string]*task
	entered map[string]chan struct{} // IDs that are being started, recovered or destroyed
	epoch   psg.Epoch                // highest seen: orders of an older leader are refused
	silence silence
}

// silence is what the last call said of the controllers.
type silence struct {
	since time.Time // zero while they answer
	err   error
}

// New returns a driver without config. launcher is the command that becomes an
// executor when the directory of a task is added to it.
func New(launcher []string, log *slog.Logger) *Driver {
	ctx, cancel := context.WithCancel(context.Background())
	d := &Driver{launcher: launcher, log: log, ctx: ctx, cancel: cancel,
		tasks: map[string]*task{}, entered: map[string]chan struct{}{}}
	d.reports.init()
	return d
}

// Configure sets or replaces what the driver follows. Tasks that wait go on
// with the new config and placer. Starts that no controller knows of yet are
// read from the state directory and reported. After an error nothing has changed
// and placer is the caller's.
func (d *Driver) Configure(config Config, placer Placer) error {
	left, err := readReports(config.Plugin.StateDir, d.log)
	if err != nil {
		return err
	}
	d.mu.Lock()
	if d.ctx.Err() != nil {
		d.mu.Unlock()
		return ErrClosed
	}
	old := d.placer
	d.config, d.placer = config, placer
	d.mu.Unlock()
	for path, r := range left {
		d.resumeReport(r, path)
	}
	if err := closePlacer(old); err != nil {
		d.log.Warn("earlier controller client not closed", "error", err)
	}
	return nil
}

// Configured reports whether the driver follows this config already.
func (d *Driver) Configured(config Config) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placer != nil && reflect.DeepEqual(d.config, config)
}

func closePlacer(p Placer) error {
	if c, ok := p.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return fmt.Errorf("close controller client: %w", err)
		}
	}
	return nil
}

// Close stops waiting for anything and returns when all goroutines have ended.
// Commands go on; a later driver recovers them and the gates.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	d.work.Wait() // whatever runs may still use the placer
	d.mu.Lock()
	placer := d.placer
	d.placer = nil // closed once, however often the driver is
	d.mu.Unlock()
	return closePlacer(placer)
}

// spawn runs f until it ends, unless the driver is closing.
func (d *Driver) spawn(f func()) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return ErrClosed
	}
	d.work.Go(f)
	return nil
}

// place makes one call to the controllers and refuses what is not an answer to
// it.
func (d *Driver) place(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error) {
	ctx, cancel := context.WithTimeout(ctx, placeLimit)
	defer cancel()
	for {
		placer, asked := d.currentPlacer(), time.Now()
		order, err := placer.Place(ctx, ask, after)
		if errors.Is(ctx.Err(), context.Canceled) {
			return psg.Order{}, ctx.Err()
		}
		if err != nil && ctx.Err() == nil && placer != d.currentPlacer() {
			continue // Configure closed it: that says nothing about the controllers
		}
		if d.heard(asked, err); err != nil {
			return psg.Order{}, err
		}
		return order, d.accept(ask, order)
	}
}

func (d *Driver) currentPlacer() Placer {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.placer
}

// heard notes whether a call was answered.
func (d *Driver) heard(asked time.Time, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || controllerAnswered(err) {
		d.silence = silence{}
		return
	}
	if d.silence.since.IsZero() {
		d.silence.since = silentSince(asked, err)
	}
	d.silence.err = err
}

// accept refuses an order that is not for the ask, not from the newest leader or
// can't be carried out.
func (d *Driver) accept(ask psg.Ask, order psg.Order) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case order.Epoch < d.epoch:
		return fmt.Errorf("order of epoch %d after one of %d: %w", order.Epoch, d.epoch, psg.ErrNotLeader)
	case order.Ask != ask.ID:
		return fmt.Errorf("got an order for %s: %w", order.Ask, psg.ErrInvalid)
	}
	d.epoch = order.Epoch
	return checkDevices(order.Devices)
}

// Health says, for people, whether the controllers answer.
func (d *Driver) Health() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.silence.since.IsZero() {
		return "healthy"
	}
	return fmt.Sprintf("no controller has answered since %s, gates wait (fail = %q): %v",
		d.silence.since.UTC().Format(time.RFC3339), d.config.Plugin.Fail, d.silence.err)
}

// Events calls send with what users should know, in order, until ctx ends, the
// driver closes or send fails.
func (d *Driver) Events(ctx context.Context, send func(Event) error) error {
	ctx, cancel := d.joined(ctx)
	defer cancel()
	return d.events.follow(ctx, send)
}

// joined ends with ctx or with the driver.
func (d *Driver) joined(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(d.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

func (d *Driver) settings() (Config, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.placer == nil {
		return Config{}, ErrNotConfigured
	}
	return d.config, nil
}

func (d *Driver) find(id string) (*task, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if t := d.tasks[id]; t != nil {
		return t, nil
	}
	return nil, ErrTaskNotFound
}
