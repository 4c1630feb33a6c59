package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestServer_BoundsTheCallsOfOneConnection(t *testing.T) {
	b := &brain{asked: make(chan []psg.Ask, 2*maxStreams)}
	client := dial(t, serveBrain(t, b))
	ctx, stop := context.WithCancel(t.Context())
	var calls sync.WaitGroup
	for range maxStreams {
		calls.Go(func() { _, _ = client.Place(ctx, psg.Ask{ID: "a"}, 0) })
	}
	defer calls.Wait()
	defer stop()
	for range maxStreams {
		select {
		case <-b.asked:
		case <-time.After(time.Minute):
			t.Fatal("fewer calls than may be are open")
		}
	}
	more, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := client.Place(more, psg.Ask{ID: "a"}, 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Place = %v, want it to wait its turn", err)
	}
	if len(b.asked) > 0 {
		t.Error("one connection has more calls open than it may")
	}
}

// accepts counts connections.
type accepts struct {
	net.Listener
	n atomic.Int64
}

func (a *accepts) Accept() (net.Conn, error) {
	conn, err := a.Listener.Accept()
	if err == nil {
		a.n.Add(1)
	}
	return conn, err
}

// A connection ends, and with it what is kept for whoever does not read; who does
// goes on by another, and no call of it fails.
func TestServer_EndsConnectionsAndFailsNoCall(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counted := &accepts{Listener: listener}
	b := &brain{orders: func(asks []psg.Ask, after uint64) []psg.Order {
		return []psg.Order{{Kind: psg.Grant, Ask: asks[0].ID, Sequence: after + 1}}
	}}
	server := NewServer(b, b)
	server.age = 20 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, counted, nil) }()
	client := dial(t, listener.Addr().String())
	for end := time.Now().Add(time.Minute); counted.n.Load() < 4; {
		if _, err := client.Place(t.Context(), psg.Ask{ID: "a"}, 0); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%d connections within a minute", counted.n.Load())
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
