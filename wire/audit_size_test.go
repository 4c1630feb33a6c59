package wire_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/wire"
)

// An audit record fits into a message where its ledger record does: it says less
// of each delta, and carries a hash. Package bus leaves 1,024 bytes for that.
func TestEncodeAuditRecord_IsNoLargerThanItsLedgerRecord(t *testing.T) {
	long := strings.Repeat("x", 500)
	ask := psg.Ask{ID: psg.RequestID(long), Alloc: psg.AllocID(long), Node: psg.NodeID(long), Workload: psg.WorkloadID{Namespace: long, Job: long, Group: long}}
	victims := []psg.RequestID{ask.ID, ask.ID}
	devices := []psg.DeviceShare{{Device: psg.DeviceID(long), MilliGPU: 1000, MemoryMB: 1 << 20}}
	at := time.Unix(1_800_000_000, 1)
	for name, d := range map[string]psg.Delta{
		"led":          psg.Led{Epoch: 1, Leader: long},
		"asked":        psg.Asked{Ask: ask},
		"short asked":  psg.Asked{Ask: psg.Ask{ID: "a", Alloc: "a", Workload: psg.WorkloadID{Job: "j"}}},
		"placed":       psg.Placed{Placement: psg.Placement{Ask: ask, Node: ask.Node, State: psg.Granted, Devices: devices, Victims: victims, Since: at}},
		"short placed": psg.Placed{Placement: psg.Placement{Ask: psg.Ask{ID: "a"}, Node: "n", State: psg.Granted}},
		"refused":      psg.Refused{Refusal: psg.Refusal{Ask: ask.ID, State: psg.Elsewhere, Node: ask.Node, Summary: long}, At: at},
		"moved":        psg.Moved{Ask: ask.ID, State: psg.Running, At: at, Reason: long},
		"freed":        psg.Freed{Ask: ask.ID, State: psg.Lost, Reason: long, At: at},
		"bundle":       psg.BundleChanged{Bundle: psg.Bundle{Name: long, Version: long, Digest: long}, At: at},
	} {
		t.Run(name, func(t *testing.T) {
			r := psg.Record{Sequence: 1 << 40, Epoch: 1 << 40, At: at, Deltas: make([]psg.Delta, 1000)}
			for i := range r.Deltas {
				r.Deltas[i] = d
			}
			stored, err := wire.EncodeRecord(r)
			if err != nil {
				t.Fatal(err)
			}
			told, err := wire.EncodeAuditRecord(psg.AuditRecord{
				Sequence: r.Sequence, Epoch: r.Epoch, At: r.At, Previous: bytes.Repeat([]byte{1}, 32), Entries: ledger.Audit(r),
			})
			if err != nil {
				t.Fatal(err)
			}
			if len(told) > len(stored)+64 {
				t.Errorf("%d bytes of audit for %d of ledger", len(told), len(stored))
			}
		})
	}
}
