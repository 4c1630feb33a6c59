package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/wire"
)

// auditBus is a bus of its own that listens, with raw access to its streams.
type auditBus struct {
	*bus.Bus
	url string
	js  jetstream.JetStream
}

func newAuditBus(t *testing.T) *auditBus {
	t.Helper()
	embedded, err := server.Start(server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(embedded.Close)
	transport, err := bus.Connect(bus.Config{Server: embedded, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	if err := transport.CreateStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := nats.Connect(embedded.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(raw.Close)
	js, err := jetstream.New(raw)
	if err != nil {
		t.Fatal(err)
	}
	return &auditBus{transport, embedded.ClientURL(), js}
}

// auditedRecords is a short ledger: an epoch, an ask of each fate, and records
// that have nothing to tell.
func auditedRecords(at time.Time) []psg.Record {
	ask := psg.Ask{ID: "alloc-1", Alloc: "alloc-1", Workload: psg.WorkloadID{Namespace: "default", Job: "web", Group: "g"}, Node: "n1", At: at}
	placed := psg.Placement{Ask: ask, Node: "n1", State: psg.Granted, Devices: []psg.DeviceShare{{Device: "card", MilliGPU: 500}}, Since: at}
	var records []psg.Record
	for i, deltas := range [][]psg.Delta{
		{psg.Led{Epoch: 1, Leader: "a"}},
		{psg.NodeChanged{Node: psg.Node{ID: "n1", Devices: []psg.Device{{ID: "card"}}}}, psg.BundleChanged{Bundle: psg.Bundle{Name: "production", Digest: "00"}, At: at}},
		{psg.Asked{Ask: ask}, psg.Refused{Refusal: psg.Refusal{Ask: ask.ID, State: psg.Denied, Summary: "policy says no"}, At: at}},
		{psg.NodeGone{Node: "n2"}},
		{psg.Placed{Placement: placed}},
		{psg.Moved{Ask: ask.ID, State: psg.Running, At: at}},
		{psg.Freed{Ask: ask.ID, State: psg.Released, Reason: "complete", At: at}},
	} {
		records = append(records, psg.Record{Sequence: uint64(i + 1), Epoch: 1, At: at, Deltas: deltas})
	}
	return records
}

func (b *auditBus) write(t *testing.T, records []psg.Record) {
	t.Helper()
	for _, r := range records {
		if err := b.Ledger().Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// project audits until the head tells of a ledger record.
func (b *auditBus) project(t *testing.T, until uint64) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	var reached uint64
	_ = b.Audit().Project(ctx, ledger.Audit, func(head bus.AuditHead) {
		if reached = head.Sequence; reached >= until {
			stop()
		}
	})
	if reached < until {
		t.Fatalf("audited up to record %d, want %d", reached, until)
	}
}

// stored returns the bytes of the audit records.
func (b *auditBus) stored(t *testing.T) (all [][]byte) {
	t.Helper()
	err := b.Audit().Read(t.Context(), func(_ uint64, stored []byte, _ psg.AuditRecord) error {
		all = append(all, bytes.Clone(stored))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// put appends to the audit as the leader does; but what is JSON as NATS's own
// answers come there.
func (b *auditBus) put(t *testing.T, after uint64, data []byte) {
	t.Helper()
	options := []jetstream.PublishOpt{jetstream.WithExpectStream("PSG_AUDIT"), jetstream.WithExpectLastSequence(after)}
	if bytes.HasPrefix(data, []byte("{")) {
		options = nil
	}
	if _, err := b.js.Publish(t.Context(), "psg.v1.audit", data, options...); err != nil {
		t.Fatal(err)
	}
}

func TestAudit_TellsEachRecordOnceAcrossRestartsAndRivals(t *testing.T) {
	b := newAuditBus(t)
	records := auditedRecords(time.Now())
	b.write(t, records[:3])
	b.project(t, 3)
	ctx, stop := context.WithCancel(t.Context())
	rivals := make(chan error, 2)
	for range 2 { // an old leader that does not know yet, and the next
		go func() { rivals <- b.Audit().Project(ctx, ledger.Audit, func(bus.AuditHead) {}) }()
	}
	b.write(t, records[3:])
	b.project(t, 7)
	stop()
	<-rivals
	<-rivals
	report, err := (&auditCheck{now: time.Now()}).run(t.Context(), b.Bus)
	if err != nil {
		t.Fatal(err)
	}
	if report.Records != 6 || report.Entries != 7 || report.Untold != 0 {
		t.Errorf("report = %+v, want 6 records with 7 entries", report)
	}
}

func TestAuditVerify_FindsWhatWasTamperedWith(t *testing.T) {
	source, old := newAuditBus(t), time.Now().Add(-time.Hour)
	records := auditedRecords(old)
	source.write(t, records)
	source.project(t, 7)
	good := source.stored(t)
	head := func(all [][]byte) string {
		report, err := (&auditCheck{now: time.Now()}).run(t.Context(), source.Bus)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d:%s", report.Position, report.Hash)
	}(good)

	for name, tampered := range map[string]struct {
		change func(all [][]byte) [][]byte
		alone  bool
		want   string
	}{
		"untouched": {func(all [][]byte) [][]byte { return all }, false, ""},
		"changed": {func(all [][]byte) [][]byte {
			all[2] = bytes.Replace(all[2], []byte("policy says no"), []byte("policy said so"), 1)
			return all
		}, true, "tampered"},
		"removed":          {func(all [][]byte) [][]byte { return slices.Delete(all, 2, 3) }, true, "tampered"},
		"first removed":    {func(all [][]byte) [][]byte { return all[1:] }, true, "tampered"},
		"reordered":        {func(all [][]byte) [][]byte { all[1], all[2] = all[2], all[1]; return all }, true, "tampered"},
		"repeated":         {func(all [][]byte) [][]byte { return slices.Insert(all, 3, all[2]) }, true, "tampered"},
		"cut off":          {func(all [][]byte) [][]byte { return all[:4] }, false, "ledger record 6"},
		"cut off, no view": {func(all [][]byte) [][]byte { return all[:4] }, true, "before the anchor"},
		"last changed": {func(all [][]byte) [][]byte {
			all[5] = bytes.Replace(all[5], []byte("complete"), []byte("vanished"), 1)
			return all
		}, false, "not what the ledger record gives"},
		"written anew":          {func(all [][]byte) [][]byte { return rewritten(t, all, "policy says no", "policy said so") }, false, "not what the ledger record gives"},
		"written anew, no view": {func(all [][]byte) [][]byte { return rewritten(t, all, "policy says no", "policy said so") }, true, "anchor"},
		"no record":             {func(all [][]byte) [][]byte { return append(all, []byte("\xff")) }, true, "decode"},
		"not ours":              {func(all [][]byte) [][]byte { return slices.Insert(all, 3, []byte("{}")) }, false, ""},
		"not ours in its stead": {func(all [][]byte) [][]byte { all[3] = []byte("{}"); return all }, true, "tampered"},
		"not ours at the end":   {func(all [][]byte) [][]byte { all[5] = []byte("{}"); return all }, false, "ledger record 7"},
		"not ours, no view":     {func(all [][]byte) [][]byte { all[5] = []byte("{}"); return all }, true, "anchor"},
	} {
		t.Run(name, func(t *testing.T) {
			copied := newAuditBus(t)
			copied.write(t, records)
			for i, data := range tampered.change(slices.Clone(good)) {
				copied.put(t, uint64(i), data)
			}
			check := auditCheck{now: time.Now(), alone: tampered.alone}
			if tampered.alone && strings.Contains(tampered.want, "anchor") {
				if err := check.setAnchor(head); err != nil {
					t.Fatal(err)
				}
			}
			_, err := check.run(t.Context(), copied.Bus)
			if (err == nil) != (tampered.want == "") || err != nil && !strings.Contains(err.Error(), tampered.want) {
				t.Errorf("verify = %v, want %q", err, tampered.want)
			}
		})
	}
}

// rewritten is what somebody with the disk can do: another chain, sound in
// itself.
// TestAuditVerify_FindsNothingWrongWhileBothGrow has more appended and told between the
// first look at either.
func TestAuditVerify_FindsNothingWrongWhileBothGrow(t *testing.T) {
	b := newAuditBus(t)
	all := auditedRecords(time.Now())
	for last := all[6]; len(all) < 200; all = append(all, last) {
		last.Sequence++
	}
	b.write(t, all[:6])
	check := auditCheck{now: time.Now()}
	records, stop := check.readLedger(t.Context(), b.Bus)
	defer stop()
	b.write(t, all[6:])
	b.project(t, 200)
	told := 0
	err := b.Audit().Read(t.Context(), func(position uint64, _ []byte, r psg.AuditRecord) error {
		told++
		return records.tells(position, r)
	})
	if err != nil || told < 195 {
		t.Fatalf("%d told, %v", told, err)
	}
	if untold, err := records.rest(check.now); err != nil || untold != 0 {
		t.Errorf("%d not told yet, %v", untold, err)
	}
}

func rewritten(t *testing.T, all [][]byte, old, with string) [][]byte {
	t.Helper()
	var chain ledger.Chain
	var out [][]byte
	for i, data := range all {
		r, err := wire.DecodeAuditRecord(bytes.Replace(data, []byte(old), []byte(with), 1))
		if err != nil {
			t.Fatal(err)
		}
		r.Previous = chain.Hash
		if data, err = wire.EncodeAuditRecord(r); err != nil {
			t.Fatal(err)
		}
		if err := chain.Next(uint64(i+1), data, r); err != nil {
			t.Fatal(err)
		}
		out = append(out, data)
	}
	return out
}

func TestAuditCommands_PrintWhatTheyFind(t *testing.T) {
	b := newAuditBus(t)
	b.write(t, auditedRecords(time.Now()))
	b.project(t, 7)
	for command, want := range map[string]string{
		"audit list -ask alloc": "policy says no",
		"audit list -json":      `"kind": "policies"`,
		"audit verify":          "Records        6",
		"audit verify -json":    `"entries": 7`,
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(strings.Fields(command), "-nats", b.url), &stdout, &stderr)
		if code != exitOK || !strings.Contains(stdout.String(), want) {
			t.Errorf("psg %s = %d\n%s%s", command, code, &stdout, &stderr)
		}
	}
	var stdout, stderr bytes.Buffer
	wrong := "1:" + strings.Repeat("0", 64)
	if code := run(t.Context(), []string{"audit", "verify", "-nats", b.url, "-anchor", wrong}, &stdout, &stderr); code != exitFailure {
		t.Errorf("a wrong anchor: exit code %d", code)
	}
	if code := run(t.Context(), []string{"audit", "verify", "-anchor", "7"}, &stdout, &stderr); code != exitUsage {
		t.Errorf("a malformed anchor: exit code %d", code)
	}
}
