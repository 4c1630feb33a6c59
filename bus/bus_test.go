package bus

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus/server"
)

// open connects to a server of its own that keeps its streams in dir.
func open(t testing.TB, dir string) *Bus {
	t.Helper()
	embedded, err := server.Start(server.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := Connect(Config{Server: embedded, Name: t.Name(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close(); embedded.Close() })
	createStreams(t, bus)
	return bus
}

// createStreams tries again: a slow machine takes longer than one try may.
func createStreams(t testing.TB, bus *Bus) {
	t.Helper()
	until(t, "the streams are created", func() bool {
		err := bus.CreateStreams(t.Context())
		if err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

// until polls for what is to come about soon.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for end := time.Now().Add(time.Minute); !done(); <-retry.C {
		if time.Now().After(end) {
			t.Fatal(what, "has not come within a minute")
		}
	}
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
	embedded, err := server.Start(server.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	bus, err := Connect(Config{Server: embedded, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	createStreams(t, bus)
	for sequence := uint64(1); sequence <= 600; sequence++ { // more than one fetch
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	bus.Close()
	embedded.Close()

	bus = open(t, dir)
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
	nowhere := []string{"nats://127.0.0.1:1"}
	for name, wrong := range map[string]struct {
		config Config
		want   string
	}{
		"neither":     {Config{Log: log}, "either a server"},
		"both":        {Config{Server: &server.Server{}, URLs: nowhere, Log: log}, "either a server"},
		"no logger":   {Config{URLs: nowhere}, "no logger"},
		"replicas":    {Config{URLs: nowhere, Replicas: 9, Log: log}, "9 replicas"},
		"credentials": {Config{URLs: nowhere, Credentials: "missing.creds", Log: log}, "missing.creds"},
		"unreachable": {Config{URLs: nowhere, Log: log}, "connect to bus"},
	} {
		t.Run(name, func(t *testing.T) {
			bus, err := Connect(wrong.config)
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

func TestConnect_OverTheNetwork(t *testing.T) {
	listening, err := server.Start(server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	client, err := Connect(Config{URLs: []string{listening.ClientURL()}, Name: "client", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	createStreams(t, client)
	if err := client.Ledger().Append(t.Context(), record(1, 1)); err != nil {
		t.Fatal(err)
	}
	if records := replay(t, client, 0); len(records) != 1 {
		t.Errorf("server has %d records, want 1", len(records))
	}
	listening.Close()
	for retry := time.NewTicker(time.Millisecond); client.Healthy() == nil; <-retry.C { // until it notices
	}
	if err := client.Ledger().Append(t.Context(), record(2, 1)); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("append without a server: %v, want ErrUnavailable", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	bus := open(b, b.TempDir())
	sequence := uint64(0)
	for b.Loop() {
		sequence++
		if err := bus.Ledger().Append(b.Context(), record(sequence, 1)); err != nil {
			b.Fatal(err)
		}
	}
}

func image(sequence uint64) psg.Image {
	return psg.Image{Sequence: sequence, Epoch: 1, Nodes: []psg.Node{{ID: psg.NodeID(fmt.Sprint("n", sequence))}}}
}

func restored(t *testing.T, bus *Bus) (sequences []uint64) {
	t.Helper()
	err := bus.Images().Restore(t.Context(), func(i psg.Image) error {
		sequences = append(sequences, i.Sequence)
		return errors.New("show me an older one")
	})
	if err != nil {
		t.Fatal(err)
	}
	return sequences
}

func TestImages_KeepsTheNewestFew(t *testing.T) {
	bus := open(t, t.TempDir())
	if got := restored(t, bus); got != nil {
		t.Errorf("images of an empty bus: %v", got)
	}
	for _, sequence := range []uint64{9, 10, 101, 99} {
		if err := bus.Images().Save(t.Context(), image(sequence)); err != nil {
			t.Fatal(err)
		}
	}
	if got := restored(t, bus); !slices.Equal(got, []uint64{101, 99, 10}) {
		t.Errorf("images = %v, want the newest three, newest first", got)
	}
}

func TestImages_PassesOverCorruptedOnes(t *testing.T) {
	bus := open(t, t.TempDir())
	if err := bus.Images().Save(t.Context(), image(5)); err != nil {
		t.Fatal(err)
	}
	store, err := bus.js.ObjectStore(t.Context(), imageBucket)
	if err != nil {
		t.Fatal(err)
	}
	good, err := store.GetBytes(t.Context(), imageName(5))
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Images().Save(t.Context(), image(6)); err != nil {
		t.Fatal(err)
	}
	flipped, err := store.GetBytes(t.Context(), imageName(6))
	if err != nil {
		t.Fatal(err)
	}
	flipped[bytes.LastIndex(flipped, []byte("n6"))] ^= 1 // of a name: it still decodes
	for sequence, data := range map[uint64][]byte{6: flipped, 7: good[:20], 8: nil, 9: good} {
		if _, err := store.PutBytes(t.Context(), imageName(sequence), data); err != nil {
			t.Fatal(err)
		}
	}
	if got := restored(t, bus); !slices.Equal(got, []uint64{5}) {
		t.Errorf("images = %v, want the good one alone", got)
	}
}

func TestLedger_SaysWhenRecordsAreLost(t *testing.T) {
	bus := open(t, t.TempDir())
	err := bus.Ledger().Replay(t.Context(), 7, func(psg.Record) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "ends at record 0") {
		t.Errorf("Replay = %v, want that records are lost", err)
	}
}

func TestLease_IsOnesAtATime(t *testing.T) {
	bus, ttl := open(t, t.TempDir()), 300*time.Millisecond
	first, second := bus.Lease(psg.Leader{Name: "first"}, ttl), bus.Lease(psg.Leader{Name: "second"}, ttl)
	take := func(l *Lease) psg.Lease {
		t.Helper()
		lease, err := l.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	if got := take(first); !got.Mine || !got.Until.After(time.Now()) || got.Until.After(time.Now().Add(ttl)) {
		t.Fatalf("first Take = %+v", got)
	}
	taken, last := time.Time{}, take(first)
	for retry := time.NewTicker(5 * time.Millisecond); taken.IsZero(); <-retry.C {
		if got := take(second); got.Mine {
			taken = time.Now()
		} else if got.Holder.Name != "first" {
			t.Fatalf("second saw %+v", got)
		}
	}
	if taken.Before(last.Until) {
		t.Errorf("taken %s before the first had to stop", last.Until.Sub(taken))
	}
	if got := take(first); got.Mine || got.Holder.Name != "second" {
		t.Errorf("first Take after it was taken = %+v", got)
	}
	if err := second.Give(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := take(first); !got.Mine {
		t.Errorf("Take of a lease given up = %+v", got)
	}
}

// A controller that ends in the middle of a renewal does not wait for its answer.
func TestLease_IsGivenUpAfterARenewalThatWasNotAcknowledged(t *testing.T) {
	bus, ttl := open(t, t.TempDir()), time.Minute
	first, second := bus.Lease(psg.Leader{Name: "first"}, ttl), bus.Lease(psg.Leader{Name: "second"}, ttl)
	if got, err := first.Take(t.Context()); err != nil || !got.Mine {
		t.Fatalf("Take = %+v, %v", got, err)
	}
	acknowledged := first.revision
	if got, err := first.Take(t.Context()); err != nil || !got.Mine {
		t.Fatalf("Take again = %+v, %v", got, err)
	}
	first.revision = acknowledged
	if err := first.Give(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := second.Take(t.Context()); err != nil || !got.Mine {
		t.Errorf("Take of a lease given up = %+v, %v", got, err)
	}
}
