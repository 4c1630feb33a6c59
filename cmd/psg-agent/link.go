package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/bus"
)

// link is the agent's Publisher: the bus, connected to when there is first
// something to publish, so that the agent may start before the bus does. It is
// for one goroutine.
type link struct {
	config     bus.Config
	bus        *bus.Bus     // nil until it was reached once
	reconnects uint64       // seen so far
	resyncAt   atomic.Int64 // Unix nanoseconds; 0 while nobody asked
}

// resyncWithin is how long a full sample may wait that a controller asked all
// agents for, so that not all come at once.
const resyncWithin = 2 * time.Second

// Publish refuses while the bus is not connected, instead of letting the client
// queue what will be stale. It asks for a full sample when a controller does,
// and once after the bus was away: what was published just before may be lost.
func (l *link) Publish(ctx context.Context, sample psg.Sample) error {
	if l.bus == nil {
		if err := l.connect(); err != nil {
			return err
		}
	}
	if err := l.bus.Healthy(); err != nil {
		return err
	}
	if n := l.bus.Reconnects(); n != l.reconnects {
		l.reconnects = n
		return fmt.Errorf("the bus was away for a moment: %w", agent.ErrResync)
	}
	if at := l.resyncAt.Load(); at != 0 && time.Now().UnixNano() >= at && l.resyncAt.CompareAndSwap(at, 0) {
		return fmt.Errorf("a controller asks: %w", agent.ErrResync)
	}
	return l.bus.PublishTelemetry(ctx, sample)
}

func (l *link) connect() error {
	connected, err := bus.Connect(l.config)
	if err != nil {
		return err
	}
	if err := connected.OnResync(l.asked); err != nil {
		connected.Close()
		return err
	}
	l.bus = connected
	l.config.Log.Info("connected to the bus")
	return nil
}

// asked keeps the earliest moment, if there is one.
func (l *link) asked() {
	l.resyncAt.CompareAndSwap(0, time.Now().Add(rand.N(resyncWithin)).UnixNano())
}

func (l *link) close() {
	if l.bus != nil {
		l.bus.Close()
	}
}
