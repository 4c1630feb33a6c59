package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var reportStates = enum[psg.ReportState, psgv1.ReportState]{
	psgv1.ReportState_REPORT_STATE_DONE:    psg.ReportDone,
	psgv1.ReportState_REPORT_STATE_REFUSED: psg.ReportRefused,
	psgv1.ReportState_REPORT_STATE_FAILED:  psg.ReportFailed,
	psgv1.ReportState_REPORT_STATE_UNDONE:  psg.ReportUndone,
	psgv1.ReportState_REPORT_STATE_BEGUN:   psg.ReportBegun,
}

// EncodeReport writes one report.
func EncodeReport(r psg.Report) ([]byte, error) {
	var c coder
	return marshal(&c, "report", putReport(&c, r))
}

// DecodeReport reads what EncodeReport wrote.
func DecodeReport(data []byte) (psg.Report, error) {
	return decode(data, "report", &psgv1.Report{}, getReport)
}

// ReportToProto converts a report.
func ReportToProto(r psg.Report) (*psgv1.Report, error) { return convert(r, putReport) }

// ReportFromProto converts a report back; a nil one is missing.
func ReportFromProto(r *psgv1.Report) (psg.Report, error) {
	return convertPart(r, "report", getReport)
}

func putReport(c *coder, r psg.Report) *psgv1.Report {
	return &psgv1.Report{
		Node:     string(r.Node),
		Kind:     orderKinds.put(c, "kind", r.Kind),
		Epoch:    uint64(r.Epoch),
		Sequence: r.Sequence,
		Ask:      string(r.Ask),
		Alloc:    string(r.Alloc),
		Unasked:  r.Unasked,
		State:    reportStates.put(c, "state", r.State),
		Reason:   r.Reason,
		At:       putTime(c, "at", r.At),
		Until:    putTime(c, "until", r.Until),
	}
}

func getReport(c *coder, r *psgv1.Report) psg.Report {
	return psg.Report{
		Node:     psg.NodeID(r.GetNode()),
		Kind:     orderKinds.get(c, "kind", r.GetKind()),
		Epoch:    psg.Epoch(r.GetEpoch()),
		Sequence: r.GetSequence(),
		Ask:      psg.RequestID(r.GetAsk()),
		Alloc:    psg.AllocID(r.GetAlloc()),
		Unasked:  r.GetUnasked(),
		State:    reportStates.get(c, "state", r.GetState()),
		Reason:   r.GetReason(),
		At:       getTime(c, "at", r.GetAt()),
		Until:    getTime(c, "until", r.GetUntil()),
	}
}
