package ledger

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// Audit returns what a record decided and did: the same entries each time, from
// the record alone. None means that there is nothing to tell.
func Audit(r psg.Record) []psg.AuditEntry {
	var entries []psg.AuditEntry
	for _, d := range r.Deltas {
		if entry, told := auditEntry(d); told {
			entries = append(entries, entry)
		}
	}
	return entries
}

// wouldDeny says what policies in audit mode say of a placement.
func wouldDeny(reasons []psg.Reason) string {
	if len(reasons) == 0 {
		return ""
	}
	texts := make([]string, len(reasons))
	for i, reason := range reasons {
		texts[i] = reason.Source + ": " + reason.Text
	}
	return "audit, would be denied: " + strings.Join(texts, "; ")
}

func auditEntry(d psg.Delta) (entry psg.AuditEntry, told bool) {
	switch d := d.(type) {
	case psg.Led:
		return psg.AuditEntry{Kind: psg.AuditLed, Leader: d.Leader}, true
	case psg.Asked:
		return psg.AuditEntry{
			Kind: psg.AuditAsked, Ask: d.Ask.ID, Workload: d.Ask.Workload, Alloc: d.Ask.Alloc, Node: d.Ask.Node,
		}, true
	case psg.Placed:
		p := &d.Placement
		kind := psg.AuditPlaced
		if p.Waits() {
			kind = psg.AuditPreempts
		}
		return psg.AuditEntry{
			Kind: kind, Victims: p.Victims, Ask: p.Ask.ID, Workload: p.Ask.Workload, Alloc: p.Ask.Alloc,
			Node: p.Node, State: p.State, Devices: p.Devices, Reason: wouldDeny(p.Audit),
		}, true
	case psg.Refused:
		return psg.AuditEntry{
			Kind: psg.AuditRefused, Ask: d.Refusal.Ask, Node: d.Refusal.Node, State: d.Refusal.State, Reason: d.Refusal.Summary,
		}, true
	case psg.Moved:
		return psg.AuditEntry{Kind: psg.AuditMoved, Ask: d.Ask, State: d.State, Reason: d.Reason}, true
	case psg.Freed:
		return psg.AuditEntry{Kind: psg.AuditFreed, Ask: d.Ask, State: d.State, Reason: d.Reason}, true
	case psg.BundleChanged:
		return psg.AuditEntry{Kind: psg.AuditPolicies, Bundle: d.Bundle}, true
	}
	return psg.AuditEntry{}, false
}

// Chain checks audit records one after another. The zero Chain is before the
// first.
type Chain struct {
	Position uint64 // in the audit stream, as far as it was followed
	Sequence uint64 // of the ledger record it tells of
	Hash     []byte // of the bytes it is stored as; what the next must carry
}

// Pass moves on over what is in the stream and is no audit record.
func (c *Chain) Pass(position uint64) error {
	if position != c.Position+1 {
		return c.missing(position)
	}
	c.Position = position
	return nil
}

func (c *Chain) missing(position uint64) error {
	return fmt.Errorf("audit record %d is missing: after %d comes %d", c.Position+1, c.Position, position)
}

// Next checks that a record follows, and moves on to it. stored is the bytes
// that it was read from.
func (c *Chain) Next(position uint64, stored []byte, r psg.AuditRecord) error {
	switch {
	case position != c.Position+1:
		return c.missing(position)
	case !bytes.Equal(r.Previous, c.Hash):
		return fmt.Errorf("audit record %d was tampered with, or the one before: it does not carry that one's hash", position)
	case r.Sequence <= c.Sequence:
		return fmt.Errorf("audit record %d tells of ledger record %d after %d", position, r.Sequence, c.Sequence)
	case len(r.Entries) == 0:
		return fmt.Errorf("audit record %d tells nothing", position)
	}
	sum := sha256.Sum256(stored)
	c.Position, c.Sequence, c.Hash = position, r.Sequence, sum[:]
	return nil
}

// errUntold is why an audit record is not what its ledger record gives.
var errUntold = errors.New("it is not what the ledger record gives")

// sameEntry compares two entries; no list and an empty one are the same.
func sameEntry(a, b *psg.AuditEntry) bool {
	return slices.Equal(a.Devices, b.Devices) && reflect.DeepEqual(withoutDevices(*a), withoutDevices(*b))
}

func withoutDevices(e psg.AuditEntry) psg.AuditEntry {
	e.Devices = nil
	return e
}

// Tells reports why an audit record is not what a ledger record gives, entry by
// entry.
func Tells(a psg.AuditRecord, r psg.Record) error {
	want := Audit(r)
	if a.Sequence != r.Sequence || a.Epoch != r.Epoch || !a.At.Equal(r.At) || len(a.Entries) != len(want) {
		return errUntold
	}
	for i := range want {
		if !sameEntry(&a.Entries[i], &want[i]) {
			return fmt.Errorf("entry %d: %w", i, errUntold)
		}
	}
	return nil
}
