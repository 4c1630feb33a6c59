package main

import (
	"context"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
)

// link is the agent's Publisher: the bus, connected to when there is first
// something to publish, so that the agent may start before the bus does. It is
// for one goroutine.
type link struct {
	config bus.Config
	bus    *bus.Bus // nil until it was reached once
}

// Publish refuses while the bus is not connected, instead of letting the client
// queue what will be stale: the agent keeps the newest itself.
func (l *link) Publish(ctx context.Context, observed psg.NodeObserved) error {
	if l.bus == nil {
		connected, err := bus.Connect(l.config)
		if err != nil {
			return err
		}
		l.bus = connected
		l.config.Log.Info("connected to the bus")
	}
	if err := l.bus.Healthy(); err != nil {
		return err
	}
	return l.bus.PublishTelemetry(ctx, observed)
}

func (l *link) close() {
	if l.bus != nil {
		l.bus.Close()
	}
}
