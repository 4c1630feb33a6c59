package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
)

func TestLink_RefusesWhileTheBusIsAwayAndComesBack(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	config := server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"}
	nats, err := server.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	url := nats.ClientURL()
	config.Listen = strings.TrimPrefix(url, "nats://")
	nats.Close()

	l := &link{config: bus.Config{URLs: []string{url}, Log: slog.New(slog.DiscardHandler)}}
	defer l.close()
	sample := psg.Sample{Node: "n", Session: 1, Sequence: 1, At: time.Unix(1, 0)}
	if err := l.Publish(ctx, sample); err == nil {
		t.Fatal("published to a bus that is not there")
	}
	if nats, err = server.Start(config); err != nil {
		t.Fatal(err)
	}
	if err := l.Publish(ctx, sample); err != nil {
		t.Fatal(err)
	}
	nats.Close()
	until(ctx, t, func() bool { return errors.Is(l.Publish(ctx, sample), psg.ErrUnavailable) })

	if nats, err = server.Start(config); err != nil {
		t.Fatal(err)
	}
	defer nats.Close()
	again := false
	until(ctx, t, func() bool {
		err := l.Publish(ctx, sample)
		again = again || errors.Is(err, agent.ErrResync)
		return err == nil
	})
	if !again {
		t.Error("what was published before the bus was away was not said to be lost")
	}
}

func until(ctx context.Context, t *testing.T, done func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatal("did not happen in time")
		}
	}
}
