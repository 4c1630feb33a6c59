package bus

import (
	"errors"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/psgrid/psg"
)

// TestRoles_AnswersWriteNothing: NATS sends answers to wherever a client wants
// them, also to subjects on which the client itself may not publish.
func TestRoles_AnswersWriteNothing(t *testing.T) {
	for name, start := range map[string]func(*testing.T) guarded{"documented": documented, "embedded": embedded} {
		t.Run(name, func(t *testing.T) {
			guarded := start(t)
			controller := connectAs(t, guarded(RoleController))
			createStreams(t, controller)
			if err := controller.Ledger().Append(t.Context(), record(1, 1)); err != nil {
				t.Fatal(err)
			}
			head, err := controller.Audit().append(t.Context(), AuditHead{}, auditRecord(1, nil))
			if err != nil {
				t.Fatal(err)
			}
			answersTo(t, as(t, guarded("agent/n1")), TelemetrySubject("n1"), nil)
			for stream, want := range map[string]uint64{ledgerStream: 1, auditStream: 1} {
				if end, err := controller.end(t.Context(), stream); err != nil || end != want {
					t.Errorf("an agent wrote to %s: it ends at %d, %v", stream, end, err)
				}
			}
			answersTo(t, as(t, guarded(RoleAuditor)), "$JS.API.STREAM.INFO."+ledgerStream, nil)
			answersTo(t, as(t, guarded(RoleAuditor)), "$JS.API.DIRECT.GET."+ledgerStream, []byte(`{"seq":1}`))
			passesOver(t, controller, head)
		})
	}
}

// answersTo wants answers where only the leader may write.
func answersTo(t *testing.T, r *role, subject string, data []byte) {
	t.Helper()
	for _, reply := range []string{ledgerSubject, auditSubject} {
		message := nats.NewMsg(subject)
		message.Reply, message.Data = reply, data
		traced := nats.NewMsg(subject)
		traced.Header.Set("Nats-Trace-Dest", reply)
		traced.Data = data
		if err := errors.Join(r.conn.PublishMsg(message), r.conn.PublishMsg(traced)); err != nil {
			t.Fatal(err)
		}
	}
	for !r.allowed() { // waits for the server
	}
}

func auditRecord(sequence uint64, previous []byte) psg.AuditRecord {
	return psg.AuditRecord{Sequence: sequence, Epoch: 1, Previous: previous, Entries: []psg.AuditEntry{{Kind: psg.AuditLed}}}
}

// passesOver appends after whatever others have put into the streams.
func passesOver(t *testing.T, controller *Bus, before AuditHead) {
	t.Helper()
	end, err := controller.end(t.Context(), ledgerStream)
	if err != nil || end < 2 {
		t.Fatalf("nothing was written behind the leader's back: the ledger ends at %d, %v", end, err)
	}
	if err := controller.Ledger().Append(t.Context(), record(2, 1)); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("an append where another message is = %v, want that this is no leader", err)
	}
	if err := controller.Ledger().Append(t.Context(), record(end+1, 1)); err != nil {
		t.Error(err)
	}
	var told []uint64
	for _, r := range replay(t, controller, 0) {
		if len(r.Deltas) > 0 {
			told = append(told, r.Sequence)
		} else if r.Epoch != 0 {
			t.Errorf("record %d of epoch %d holds nothing", r.Sequence, r.Epoch)
		}
	}
	if !slices.Equal(told, []uint64{1, end + 1}) {
		t.Errorf("records %v were told, want 1 and %d", told, end+1)
	}
	head, err := controller.Audit().Head(t.Context())
	if err != nil || head.Position != before.Position || head.Hash != before.Hash || head.end <= head.Position {
		t.Fatalf("head of the audit = %+v, %v, want record %d, and more behind it", head, err, before.Position)
	}
	if head, err = controller.Audit().append(t.Context(), head, auditRecord(end+1, head.Hash[:])); err != nil {
		t.Fatal(err)
	}
	if again, err := controller.Audit().Head(t.Context()); err != nil || again != head {
		t.Errorf("head of the audit = %+v, %v, want %+v", again, err, head)
	}
	var chained []uint64
	err = controller.Audit().Read(t.Context(), func(position uint64, stored []byte, _ psg.AuditRecord) error {
		if stored != nil {
			chained = append(chained, position)
		}
		return nil
	})
	if err != nil || !slices.Equal(chained, []uint64{1, head.Position}) {
		t.Errorf("the audit has records %v, %v", chained, err)
	}
}
