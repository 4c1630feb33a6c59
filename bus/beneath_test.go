package bus

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus/server"
)

// Somebody who may has deleted a bucket while controllers use it.

func TestLease_IsContendedForAnewWhenItsBucketIsGone(t *testing.T) {
	bus := open(t, t.TempDir())
	lease := bus.Lease(psg.Leader{Name: "a"}, LeaseTTL)
	if got, err := lease.Take(t.Context()); err != nil || !got.Mine {
		t.Fatalf("Take = %+v, %v", got, err)
	}
	if err := bus.js.DeleteKeyValue(t.Context(), leaseBucket); err != nil {
		t.Fatal(err)
	}
	until(t, "the lease is taken anew", func() bool {
		got, err := lease.Take(t.Context())
		return err == nil && got.Mine
	})
	if got, err := bus.Lease(psg.Leader{Name: "b"}, LeaseTTL).Take(t.Context()); err != nil || got.Mine || got.Holder.Name != "a" {
		t.Errorf("another's Take = %+v, %v, want it to be a's", got, err)
	}
}

func TestLease_IsTakenFromWhoeverWroteGarbage(t *testing.T) {
	bus := open(t, t.TempDir())
	bucket, err := bus.js.KeyValue(t.Context(), leaseBucket)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put(t.Context(), leaseKey, []byte("\xffgarbage")); err != nil {
		t.Fatal(err)
	}
	lease := bus.Lease(psg.Leader{Name: "a"}, 300*time.Millisecond)
	if got, err := lease.Take(t.Context()); err != nil || got.Mine || got.Holder.Name == "" {
		t.Errorf("Take = %+v, %v, want it to be left for its time", got, err)
	}
	until(t, "the lease is taken", func() bool {
		got, err := lease.Take(t.Context())
		return err == nil && got.Mine
	})
}

func TestImages_AreKeptAnewWhenTheirBucketIsGone(t *testing.T) {
	bus := open(t, t.TempDir())
	if err := bus.Images().Save(t.Context(), image(5)); err != nil {
		t.Fatal(err)
	}
	if err := bus.js.DeleteObjectStore(t.Context(), imageBucket); err != nil {
		t.Fatal(err)
	}
	if got := restored(t, bus); len(got) != 0 {
		t.Fatalf("restored %v, want none", got)
	}
	if err := bus.Images().Save(t.Context(), image(6)); err != nil {
		t.Fatal(err)
	}
	if got := restored(t, bus); !slices.Equal(got, []uint64{6}) {
		t.Errorf("restored %v, want 6", got)
	}
}

// Whoever is killed while it saves an image leaves pieces of it.
func TestImages_ForgetsWhatWasNeverFinished(t *testing.T) {
	bus := open(t, t.TempDir())
	for range 3 {
		if _, err := bus.js.Publish(t.Context(), chunks+"unfinished", make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	for sequence := uint64(1); sequence <= keptImages+1; sequence++ {
		if err := bus.Images().Save(t.Context(), image(sequence)); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := bus.js.Stream(t.Context(), "OBJ_"+imageBucket)
	if err != nil {
		t.Fatal(err)
	}
	held, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(chunks+">"))
	if err != nil {
		t.Fatal(err)
	}
	if len(held.State.Subjects) != keptImages {
		t.Errorf("pieces of %v are kept, want those of %d images", held.State.Subjects, keptImages)
	}
	if got := restored(t, bus); len(got) != keptImages || got[0] != keptImages+1 {
		t.Errorf("restored %v, want the newest", got)
	}
}

func TestLedger_SaysToWhoFollowsThatRecordsAreLost(t *testing.T) {
	bus := open(t, t.TempDir())
	bus.quiet = 20 * time.Millisecond
	for sequence := uint64(1); sequence <= 5; sequence++ {
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	seen := make(chan uint64, 10)
	followed := make(chan error, 1)
	go func() {
		followed <- bus.Ledger().Follow(t.Context(), 0, func(r psg.Record) error { seen <- r.Sequence; return nil })
	}()
	for range 5 {
		<-seen
	}
	select {
	case err := <-followed:
		t.Fatalf("Follow = %v while all records are there", err)
	case <-time.After(10 * bus.quiet): // asked where the stream ends, and ends there
	}
	if err := bus.js.DeleteStream(t.Context(), ledgerStream); err != nil {
		t.Fatal(err)
	}
	createStreams(t, bus)
	if err := bus.Ledger().Append(t.Context(), record(1, 2)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-followed:
		if err == nil || !strings.Contains(err.Error(), "records are lost") {
			t.Errorf("Follow = %v, want that records are lost", err)
		}
	case <-time.After(time.Minute):
		t.Error("whoever follows the ledger waits for what is lost")
	}
}

func TestAudit_TellsNothingOfALedgerThatHasLostRecords(t *testing.T) {
	embedded, err := server.Start(server.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var said lockedBuffer
	bus, err := Connect(Config{Server: embedded, Name: t.Name(), Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { bus.Close(); embedded.Close() })
	createStreams(t, bus)
	for sequence := uint64(1); sequence <= 2; sequence++ {
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	told := psg.AuditRecord{Sequence: 9, Epoch: 1, At: time.Unix(1, 0), Entries: []psg.AuditEntry{{Kind: psg.AuditPlaced, Reason: "r"}}}
	if _, err := bus.Audit().append(t.Context(), AuditHead{}, told); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		_ = bus.Audit().Project(ctx, func(psg.Record) []psg.AuditEntry { return told.Entries }, func(AuditHead) {})
	})
	until(t, "it says that records are lost", func() bool { return strings.Contains(said.String(), "records are lost") })
	stop()
	group.Wait()
}

// lockedBuffer is a buffer that one writes while another reads.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// A ledger that was deleted begins anew: what images tell is of records that are
// no more, also once there are as many as before.
func TestImages_OfAnotherLedgerAreNotUsed(t *testing.T) {
	dir := t.TempDir()
	before := open(t, dir)
	for sequence := uint64(1); sequence <= 3; sequence++ {
		if err := before.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := before.Images().Save(t.Context(), image(2)); err != nil {
		t.Fatal(err)
	}
	if got := restored(t, before); !slices.Equal(got, []uint64{2}) {
		t.Fatalf("restored %v, want 2", got)
	}
	if err := before.js.DeleteStream(t.Context(), ledgerStream); err != nil {
		t.Fatal(err)
	}
	after := again(t, before)
	createStreams(t, after)
	for sequence := uint64(1); sequence <= 4; sequence++ {
		if err := after.Ledger().Append(t.Context(), psg.Record{Sequence: sequence, Epoch: 1, At: time.Unix(1_800_000_000, 0)}); err != nil {
			t.Fatal(err)
		}
	}
	if got := restored(t, after); len(got) != 0 {
		t.Errorf("restored %v, of the ledger that was", got)
	}
	if err := after.Images().Save(t.Context(), image(1)); err != nil {
		t.Fatal(err)
	}
	if got := restored(t, after); !slices.Equal(got, []uint64{1}) {
		t.Errorf("restored %v, want 1, of the ledger there is", got)
	}
	// Who was there before goes on with neither.
	if err := before.Ledger().Replay(t.Context(), 3, func(psg.Record) error { return nil }); !errors.Is(err, errAnew) {
		t.Errorf("Replay of the ledger that was = %v", err)
	}
	if err := before.Images().Save(t.Context(), image(3)); !errors.Is(err, errAnew) {
		t.Errorf("Save of the ledger that was = %v", err)
	}
	before.quiet = time.Millisecond
	if err := before.Ledger().Follow(t.Context(), 4, func(psg.Record) error { return nil }); !errors.Is(err, errAnew) {
		t.Errorf("Follow of the ledger that was = %v", err)
	}
}

// again is another process's connection to the same server.
func again(t *testing.T, bus *Bus) *Bus {
	t.Helper()
	other, err := Connect(bus.config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

// Nor does the audit go on with another ledger as if it had told of that one.
func TestAudit_DoesNotGoOnWithAnotherLedger(t *testing.T) {
	bus := open(t, t.TempDir())
	for sequence := uint64(1); sequence <= 2; sequence++ {
		if err := bus.Ledger().Append(t.Context(), record(sequence, 1)); err != nil {
			t.Fatal(err)
		}
	}
	told := auditRecord(1, nil)
	told.At = record(1, 1).At.Add(time.Second)
	if _, err := bus.Audit().append(t.Context(), AuditHead{}, told); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	tells := func(psg.Record) []psg.AuditEntry { return []psg.AuditEntry{{Kind: psg.AuditLed}} }
	err := bus.Audit().project(ctx, tells, func(AuditHead) { stop() })
	if !errors.Is(err, errElsewhere) {
		t.Errorf("projecting = %v, want that the audit is of another ledger", err)
	}
	if end, err := bus.end(t.Context(), auditStream); err != nil || end != 1 {
		t.Errorf("the audit ends at %d, %v", end, err)
	}
}
