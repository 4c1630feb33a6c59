package psg

import "time"

// AuditKind is what an audit entry tells.
type AuditKind string

// The kinds.
const (
	AuditLed      AuditKind = "led"      // a controller took the lead
	AuditAsked    AuditKind = "asked"    // an ask was accepted
	AuditPlaced   AuditKind = "placed"   // room was taken, or what is held was changed
	AuditRefused  AuditKind = "refused"  // denied, queued, or planned elsewhere
	AuditMoved    AuditKind = "moved"    // a placement went on: steered, running, moving
	AuditFreed    AuditKind = "freed"    // an ask is over; the reason says if it was preempted
	AuditPolicies AuditKind = "policies" // another bundle is in force
	AuditTenant   AuditKind = "tenant"   // a tenant was declared or changed
	AuditTrade    AuditKind = "trade"    // tokens changed hands
	AuditPreempts AuditKind = "preempts" // room is to be taken from others, who are named
)

// AuditEntry is one thing that was decided or done. Fields that do not bear on
// its kind are zero.
type AuditEntry struct {
	Kind     AuditKind     `json:"kind"`
	Ask      RequestID     `json:"ask,omitempty"`
	Workload WorkloadID    `json:"workload,omitzero"`
	Alloc    AllocID       `json:"alloc,omitempty"`
	Node     NodeID        `json:"node,omitempty"`
	State    State         `json:"state,omitempty"` // entered by the ask
	Devices  []DeviceShare `json:"devices,omitempty"`
	Victims  []RequestID   `json:"victims,omitempty"` // asks that are to make way
	Reason   string        `json:"reason,omitempty"`
	Leader   string        `json:"leader,omitempty"`
	Bundle   Bundle        `json:"bundle,omitzero"`
	Tenant   TenantID      `json:"tenant,omitempty"`
	To       TenantID      `json:"to,omitempty"`     // for a trade: who receives
	Tokens   int64         `json:"tokens,omitempty"` // for a trade: how many
}

// AuditRecord is what one ledger record decided and did. The chain of them is
// append-only: each carries the hash of the bytes that the one before is stored
// as.
type AuditRecord struct {
	Sequence uint64       `json:"sequence"` // of the ledger record
	Epoch    Epoch        `json:"epoch"`
	At       time.Time    `json:"at"`
	Previous []byte       `json:"previous,omitempty"` // SHA-256; none for the first
	Entries  []AuditEntry `json:"entries"`
}

// Bundle is one version of the policies.
type Bundle struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"` // of its files
}
