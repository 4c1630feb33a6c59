package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// MoveToProto converts what a move came to.
func MoveToProto(m psg.Move) (*psgv1.Move, error) { return convert(m, putMove) }

// MoveFromProto converts it back; a nil one is missing.
func MoveFromProto(m *psgv1.Move) (psg.Move, error) { return convertPart(m, "move", getMove) }

// StayToProto converts why an instance stays.
func StayToProto(s psg.Stay) (*psgv1.Stay, error) { return convert(s, putStay) }

func putStay(_ *coder, s psg.Stay) *psgv1.Stay {
	return &psgv1.Stay{Workload: putWorkloadID(s.Workload), Alloc: string(s.Alloc), Reason: s.Reason}
}

func putMove(c *coder, m psg.Move) *psgv1.Move {
	return &psgv1.Move{
		Workload: putWorkloadID(m.Workload), Alloc: string(m.Alloc), Successor: string(m.Successor),
		From: string(m.From), To: string(m.To), Shift: m.Shift, Gap: putDuration(m.Gap),
		Versions: uint32(m.Versions), Writes: uint32(m.Writes), Together: uint32(m.Together),
		GivenUp: m.GivenUp, At: putTime(c, "at", m.At),
	}
}

func getMove(c *coder, m *psgv1.Move) psg.Move {
	return psg.Move{
		Workload: WorkloadIDFromProto(m.GetWorkload()), Alloc: psg.AllocID(m.GetAlloc()), Successor: psg.AllocID(m.GetSuccessor()),
		From: psg.NodeID(m.GetFrom()), To: psg.NodeID(m.GetTo()), Shift: m.GetShift(), Gap: getDuration(c, "gap", m.GetGap()),
		Versions: int(m.GetVersions()), Writes: int(m.GetWrites()), Together: int(m.GetTogether()),
		GivenUp: m.GetGivenUp(), At: getTime(c, "at", m.GetAt()),
	}
}
