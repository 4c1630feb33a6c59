package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var auditKinds = enum[psg.AuditKind, psgv1.AuditKind]{
	psgv1.AuditKind_AUDIT_KIND_LED:      psg.AuditLed,
	psgv1.AuditKind_AUDIT_KIND_ASKED:    psg.AuditAsked,
	psgv1.AuditKind_AUDIT_KIND_PLACED:   psg.AuditPlaced,
	psgv1.AuditKind_AUDIT_KIND_REFUSED:  psg.AuditRefused,
	psgv1.AuditKind_AUDIT_KIND_MOVED:    psg.AuditMoved,
	psgv1.AuditKind_AUDIT_KIND_FREED:    psg.AuditFreed,
	psgv1.AuditKind_AUDIT_KIND_POLICIES: psg.AuditPolicies,
	psgv1.AuditKind_AUDIT_KIND_TENANT:   psg.AuditTenant,
	psgv1.AuditKind_AUDIT_KIND_TRADE:    psg.AuditTrade,
	psgv1.AuditKind_AUDIT_KIND_PREEMPTS: psg.AuditPreempts,
}

// EncodeAuditRecord writes an audit record as it is stored and hashed.
func EncodeAuditRecord(r psg.AuditRecord) ([]byte, error) {
	var c coder
	return marshal(&c, "audit record", &psgv1.AuditRecord{
		Sequence: r.Sequence,
		Epoch:    uint64(r.Epoch),
		At:       putTime(&c, "at", r.At),
		Previous: r.Previous,
		Entries:  each(&c, "entries", r.Entries, putAuditEntry),
	})
}

// DecodeAuditRecord reads what EncodeAuditRecord wrote.
func DecodeAuditRecord(data []byte) (psg.AuditRecord, error) {
	return decode(data, "audit record", &psgv1.AuditRecord{}, func(c *coder, r *psgv1.AuditRecord) psg.AuditRecord {
		return psg.AuditRecord{
			Sequence: r.GetSequence(),
			Epoch:    psg.Epoch(r.GetEpoch()),
			At:       getTime(c, "at", r.GetAt()),
			Previous: r.GetPrevious(),
			Entries:  each(c, "entries", r.GetEntries(), getAuditEntry),
		}
	})
}

func putAuditEntry(c *coder, e psg.AuditEntry) *psgv1.AuditEntry {
	out := &psgv1.AuditEntry{
		Kind:    auditKinds.put(c, "kind", e.Kind),
		Ask:     string(e.Ask),
		Alloc:   string(e.Alloc),
		Node:    string(e.Node),
		Devices: each(c, "devices", e.Devices, putDeviceShare),
		Reason:  e.Reason,
		Leader:  e.Leader,
		Tenant:  string(e.Tenant),
		To:      string(e.To),
		Tokens:  e.Tokens,
		Victims: putIDs(e.Victims),
	}
	if e.Workload != (psg.WorkloadID{}) {
		out.Workload = putWorkloadID(e.Workload)
	}
	if e.State != "" {
		out.State = states.put(c, "state", e.State)
	}
	if e.Bundle != (psg.Bundle{}) {
		out.Bundle = putBundle(c, e.Bundle)
	}
	return out
}

func getAuditEntry(c *coder, e *psgv1.AuditEntry) psg.AuditEntry {
	return psg.AuditEntry{
		Kind:     auditKinds.get(c, "kind", e.GetKind()),
		Ask:      psg.RequestID(e.GetAsk()),
		Workload: WorkloadIDFromProto(e.GetWorkload()),
		Alloc:    psg.AllocID(e.GetAlloc()),
		Node:     psg.NodeID(e.GetNode()),
		State:    states.get(c, "state", e.GetState()),
		Devices:  each(c, "devices", e.GetDevices(), getDeviceShare),
		Reason:   e.GetReason(),
		Leader:   e.GetLeader(),
		Bundle:   getBundle(c, e.GetBundle()),
		Tenant:   psg.TenantID(e.GetTenant()),
		To:       psg.TenantID(e.GetTo()),
		Tokens:   e.GetTokens(),
		Victims:  getIDs(e.GetVictims()),
	}
}

func putBundle(_ *coder, b psg.Bundle) *psgv1.Bundle {
	return &psgv1.Bundle{Name: b.Name, Version: b.Version, Digest: b.Digest}
}

func getBundle(_ *coder, b *psgv1.Bundle) psg.Bundle {
	return psg.Bundle{Name: b.GetName(), Version: b.GetVersion(), Digest: b.GetDigest()}
}
