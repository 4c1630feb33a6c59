package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

func open(t testing.TB, dir string) *Bus {
	t.Helper()
	bus, err := Connect(t.Context(), Config{Dir: dir, Name: t.Name(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return bus
}

func record(sequence uint64, epoch psg.Epoch) psg.Record {
	return psg.Record{
		Sequence: sequence, Epoch: epoch, At: time.Unix(1_700_000_000, int64(sequence)).UTC(),
		Deltas: []psg.Delta{psg.NodeGone{Node: psg.NodeID(fmt.Sprintf("node-%d-%d", epoch, sequence))}},
	}
}

func replay(t *testing.T, bus *Bus, after uint64) []psg.Record {
	t.Helper()
	var records []psg.Record
	err := bus.Ledger().Replay(t.Context(), after, func(r psg.Record) error {
		records = append(records, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

func TestLedger_ReplaysWhatWasAppended_AfterRestart(t *testing.T) {
	dir := t.TempDir()
	bus := open(t, dir)
	for sequence := uint64(1); sequence <= 600; sequence++ { // more than one fetch
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	bus.Close()

	bus = open(t, dir)
	defer bus.Close()
	records := replay(t, bus, 0)
	if len(records) != 600 {
		t.Fatalf("replayed %d records, want 600", len(records))
	}
	for i, got := range records {
		want := record(uint64(i+1), 1)
		if got.Sequence != want.Sequence || got.Deltas[0] != want.Deltas[0] || !got.At.Equal(want.At) {
			t.Fatalf("record %d = %+v, want %+v", i, got, want)
		}
	}
	if tail := replay(t, bus, 598); len(tail) != 2 || tail[0].Sequence != 599 {
		t.Errorf("tail after 598 = %+v", tail)
	}
}

func TestLedger_RefusesASecondWriter(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	log := bus.Ledger()
	if err := log.Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), record(1, 2)); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("append over a written position: %v, want ErrNotLeader", err)
	}
	if err := log.Append(t.Context(), record(3, 1)); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("append beyond the end: %v, want ErrUnavailable", err)
	}
	if records := replay(t, bus, 0); len(records) != 1 || records[0].Epoch != 1 {
		t.Errorf("log holds %+v, want the first writer's record alone", records)
	}
}

func TestLedger_TakesARepeatedAppendForDone(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	for range 2 { // as when the first acknowledgement was lost
		if err := bus.Ledger().Append(t.Context(), record(1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if records := replay(t, bus, 0); len(records) != 1 {
		t.Errorf("log holds %d records, want 1", len(records))
	}
}

func TestLedger_StopsReplayAtTheFirstFault(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	if err := bus.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	fault := errors.New("fault")
	if err := bus.Ledger().Replay(t.Context(), 0, func(psg.Record) error { return fault }); !errors.Is(err, fault) {
		t.Errorf("Replay = %v, want the fold's error", err)
	}
}

func TestLedger_CannotBePurged(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	if err := bus.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	stream, err := bus.js.Stream(t.Context(), ledgerStream)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err == nil {
		t.Error("the ledger was purged")
	}
	if err := stream.DeleteMsg(t.Context(), 1); err == nil {
		t.Error("a record was deleted")
	}
}

func TestTelemetry_ReachesWatchers(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan psg.NodeObserved, 16)
	done := make(chan error, 1)
	go func() { done <- bus.WatchTelemetry(ctx, func(seen psg.NodeObserved) { got <- seen }) }()

	want := psg.NodeObserved{Node: "rack 1.node*%", Telemetry: psg.Telemetry{
		At: time.Unix(1_700_000_000, 0).UTC(), Metrics: map[string]psg.Stats{"cpu_percent": {Last: 12.5}},
	}}
	var seen psg.NodeObserved
	for retry := time.NewTicker(10 * time.Millisecond); seen.Node == ""; { // until subscribed
		if err := bus.PublishTelemetry(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		select {
		case seen = <-got:
		case <-retry.C:
		}
	}
	if seen.Node != want.Node || seen.Telemetry.Metrics["cpu_percent"].Last != 12.5 {
		t.Errorf("watched %+v, want %+v", seen, want)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTelemetry_IgnoresAnObservationOfAnotherNode(t *testing.T) {
	bus := open(t, t.TempDir())
	defer bus.Close()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan psg.NodeID, 16)
	done := make(chan error, 1)
	go func() { done <- bus.WatchTelemetry(ctx, func(seen psg.NodeObserved) { got <- seen.Node }) }()
	forged := func() {
		message := psg.NodeObserved{Node: "victim", Telemetry: psg.Telemetry{At: time.Unix(1, 0)}}
		data, err := wire.EncodeNodeSample(message, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := bus.conn.Publish(TelemetrySubject("attacker"), data); err != nil {
			t.Fatal(err)
		}
		if err := bus.PublishTelemetry(t.Context(), psg.NodeObserved{Node: "honest", Telemetry: message.Telemetry}); err != nil {
			t.Fatal(err)
		}
	}
	for retry := time.NewTicker(10 * time.Millisecond); ; {
		forged()
		select {
		case node := <-got:
			if node != "honest" {
				t.Errorf("took an observation of %q from another node's subject", node)
			}
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
			return
		case <-retry.C:
		}
	}
}

func TestSubjects_EscapeWhatNATSGivesAMeaning(t *testing.T) {
	for node, want := range map[psg.NodeID]string{
		"plain-node_1": "psg.v1.order.plain-node_1",
		"a.b":          "psg.v1.order.a%2Eb",
		"*>% \n":       "psg.v1.order.%2A%3E%25%20%0A",
		"über":         "psg.v1.order.%C3%BCber",
	} {
		if got := OrderSubject(node); got != want {
			t.Errorf("OrderSubject(%q) = %q, want %q", node, got, want)
		}
	}
}

func TestConnect_RefusesWrongConfig(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	blocked := t.TempDir()
	for name, wrong := range map[string]struct {
		config Config
		want   string
	}{
		"neither":       {Config{Log: log}, "either a directory"},
		"both":          {Config{Dir: blocked, URLs: []string{"nats://127.0.0.1:1"}, Log: log}, "either a directory"},
		"no logger":     {Config{Dir: blocked}, "no logger"},
		"replicas":      {Config{Dir: blocked, Replicas: 9, Log: log}, "9 replicas"},
		"listen port":   {Config{Dir: blocked, Listen: "127.0.0.1:http", Log: log}, `port "http"`},
		"listen no dir": {Config{URLs: []string{"nats://127.0.0.1:1"}, Listen: "127.0.0.1:0", Log: log}, "without an embedded server"},
		"unreachable":   {Config{URLs: []string{"nats://127.0.0.1:1"}, Log: log}, "connect to bus"},
	} {
		t.Run(name, func(t *testing.T) {
			bus, err := Connect(t.Context(), wrong.config)
			if err == nil {
				bus.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("error = %q, want %q in it", err, wrong.want)
			}
		})
	}
}

func TestConnect_RefusesADirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if second, err := Connect(t.Context(), Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}); err == nil {
		second.Close()
		t.Error("two servers share a directory")
	} else if !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("error = %q", err)
	}
	first.Close()
	open(t, dir).Close()
}

func TestConnect_ExternalServer(t *testing.T) {
	server, err := Connect(t.Context(), Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Name: "server", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := Connect(t.Context(), Config{URLs: []string{server.ClientURL()}, Name: "client", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	if records := replay(t, server, 0); len(records) != 1 {
		t.Errorf("server has %d records, want 1", len(records))
	}
}

func BenchmarkAppend(b *testing.B) {
	bus := open(b, b.TempDir())
	defer bus.Close()
	sequence := uint64(0)
	for b.Loop() {
		sequence++
		if err := bus.Ledger().Append(b.Context(), record(sequence, 1)); err != nil {
			b.Fatal(err)
		}
	}
}
