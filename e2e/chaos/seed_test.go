package chaos

import (
	"fmt"
	"log/slog"
	"time"

	nouns "github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
)

// What the ledger begins with: room nodes that hold what the load asks for, one
// tight node that holds little of it, and what they may hold.
const (
	nodes     = 20
	tightRoom = 30
	instance  = 100 // MHz
)

func workload(name string) nouns.WorkloadID {
	return nouns.WorkloadID{Namespace: "default", Job: name, Group: "main"}
}

func nodeName(i int) string { return fmt.Sprintf("node-%02d", i) }

// seed creates the streams and writes the first record, as a leader before all
// others would have.
func (g *grid) seed(replicas int) {
	g.t.Helper()
	first := nouns.Record{Sequence: 1, Epoch: 1, At: time.Now(), Deltas: world(1)}
	var last error
	eventually(g.t, patience, "the bus takes the first record", func() bool {
		err := g.append(replicas, first)
		if err != nil && (last == nil || err.Error() != last.Error()) {
			g.t.Logf("seed: %v", err)
		}
		last = err
		return err == nil
	})
}

// world is an epoch in which all nodes and workloads are reported.
func world(epoch nouns.Epoch) []nouns.Delta {
	deltas := []nouns.Delta{nouns.Led{Epoch: epoch, Leader: "seed"}}
	for i := range nodes {
		deltas = append(deltas, nouns.NodeChanged{Node: node(nodeName(i), 1_000_000)})
	}
	deltas = append(deltas, nouns.NodeChanged{Node: node("tight", tightRoom*instance)})
	for _, name := range []string{"web", "batch", "tight"} {
		deltas = append(deltas, nouns.WorkloadChanged{Workload: nouns.Workload{
			ID: workload(name), Version: 1, Type: nouns.Service, Count: 1, Priority: 50, Tenant: "default", Kind: "service",
			Request: nouns.Resources{nouns.CPU: instance},
		}})
	}
	return deltas
}

func (g *grid) append(replicas int, r nouns.Record) error {
	transport, err := bus.Connect(bus.Config{Name: "seed", URLs: g.urls, Credentials: g.creds, Replicas: replicas, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer transport.Close()
	if err := transport.CreateStreams(g.t.Context()); err != nil {
		return err
	}
	return transport.Ledger().Append(g.t.Context(), r)
}

func node(name string, cpu int64) nouns.Node {
	return nouns.Node{
		ID: nouns.NodeID(name), Version: 1, Name: name, Datacenter: "dc1", Ready: true,
		Capacity: nouns.Resources{nouns.CPU: cpu},
	}
}

// seedAlone writes what a leader of an embedded bus would have been reported,
// after what the one before it wrote.
func (g *grid) seedAlone(dir, listen string) {
	g.t.Helper()
	embedded, err := server.Start(server.Config{Dir: dir, Listen: listen})
	if err != nil {
		g.t.Fatal(err)
	}
	defer embedded.Close()
	transport, err := bus.Connect(bus.Config{Server: embedded, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		g.t.Fatal(err)
	}
	defer transport.Close()
	last := nouns.Record{At: time.Now()}
	if err := transport.Ledger().Replay(g.t.Context(), 0, func(r nouns.Record) error { last = r; return nil }); err != nil {
		g.t.Fatal(err)
	}
	r := nouns.Record{Sequence: last.Sequence + 1, Epoch: last.Epoch + 1, At: time.Now(), Deltas: world(last.Epoch + 1)}
	if err := transport.Ledger().Append(g.t.Context(), r); err != nil {
		g.t.Fatal(err)
	}
}

// intrude writes the world into a ledger that others lead, as the leader of an
// epoch of its own. They stand by, and lead again.
func (g *grid) intrude(replicas int) {
	g.t.Helper()
	eventually(g.t, patience, "the world is reported", func() bool {
		transport, err := bus.Connect(bus.Config{Name: "seed", URLs: g.urls, Credentials: g.creds, Replicas: replicas, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return false
		}
		defer transport.Close()
		var last nouns.Record
		if err := transport.Ledger().Replay(g.t.Context(), 0, func(r nouns.Record) error { last = r; return nil }); err != nil {
			return false
		}
		r := nouns.Record{Sequence: last.Sequence + 1, Epoch: last.Epoch + 1, At: time.Now(), Deltas: world(last.Epoch + 1)}
		return transport.Ledger().Append(g.t.Context(), r) == nil
	})
}
