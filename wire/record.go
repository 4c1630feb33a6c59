package wire

import (
	"slices"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// EncodeRecord writes a record as the ledger stores it: all but its Sequence,
// which the log gives it. Equal records give equal bytes within one build of
// this package; what is hashed is what is stored, never an encoding anew.
func EncodeRecord(r psg.Record) ([]byte, error) {
	var c coder
	return marshal(&c, "record", &psgv1.Record{
		Epoch:  uint64(r.Epoch),
		At:     putTime(&c, "at", r.At),
		Deltas: each(&c, "deltas", r.Deltas, putDelta),
	})
}

// DecodeRecord reads what EncodeRecord wrote; the caller sets Sequence. A
// record with a kind of delta that this version does not know is an error as a
// whole: nothing of it may be applied.
func DecodeRecord(data []byte) (psg.Record, error) {
	return decode(data, "record", &psgv1.Record{}, func(c *coder, r *psgv1.Record) psg.Record {
		return psg.Record{
			Epoch:  psg.Epoch(r.GetEpoch()),
			At:     getTime(c, "at", r.GetAt()),
			Deltas: each(c, "deltas", r.GetDeltas(), getDelta),
		}
	})
}

// EncodeDelta writes one delta.
func EncodeDelta(d psg.Delta) ([]byte, error) {
	var c coder
	return marshal(&c, "delta", putDelta(&c, d))
}

// DecodeDelta reads what EncodeDelta wrote.
func DecodeDelta(data []byte) (psg.Delta, error) {
	return decode(data, "delta", &psgv1.Delta{}, getDelta)
}

// EncodeSnapshot writes a snapshot.
func EncodeSnapshot(s *psg.Snapshot) ([]byte, error) {
	var c coder
	return marshal(&c, "snapshot", &psgv1.Snapshot{
		At:        putTime(&c, "at", s.At),
		Nodes:     each(&c, "nodes", s.Nodes, putNode),
		Workloads: each(&c, "workloads", s.Workloads, putWorkload),
		Placements: each(&c, "placements", slices.Collect(s.Placements.All()), func(c *coder, p *psg.Placement) *psgv1.Placement {
			return putPlacement(c, *p)
		}),
	})
}

// DecodeSnapshot reads what EncodeSnapshot wrote, in the order it was written;
// placements in theirs.
func DecodeSnapshot(data []byte) (*psg.Snapshot, error) {
	return decode(data, "snapshot", &psgv1.Snapshot{}, func(c *coder, s *psgv1.Snapshot) *psg.Snapshot {
		return &psg.Snapshot{
			At:         getTime(c, "at", s.GetAt()),
			Nodes:      each(c, "nodes", s.GetNodes(), getNode),
			Workloads:  each(c, "workloads", s.GetWorkloads(), getWorkload),
			Placements: psg.PlacementsOf(each(c, "placements", s.GetPlacements(), getPlacement)...),
		}
	})
}
