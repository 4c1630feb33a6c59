package bus

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// auditRetry is how long projecting rests after a failure.
const auditRetry = time.Second

// Audit is the stream of audit records, each chained to the one before by the
// hash of its stored bytes.
type Audit struct {
	bus *Bus
}

// Audit returns the audit stream. CreateStreams must have been called on this
// cluster.
func (b *Bus) Audit() *Audit { return &Audit{b} }

// AuditHead is the end of the chain: whoever notes it elsewhere can prove later
// what came before.
type AuditHead struct {
	Position uint64 // in the audit stream
	Sequence uint64 // of the ledger record
	Hash     [sha256.Size]byte

	end uint64 // of the stream: beyond Position where others wrote to it
}

// Project follows the ledger and appends an audit record for each record that
// has something to tell, until ctx ends. It goes on after the ledger record
// that the last audit record tells of, and appends at the position after it
// alone: whoever else does so, each ledger record is told exactly once. head is
// told each new end of the chain. What fails is logged and tried again.
func (a *Audit) Project(ctx context.Context, project func(psg.Record) []psg.AuditEntry, head func(AuditHead)) error {
	for {
		err := a.project(ctx, project, head)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.bus.config.Log.Error("audit lags behind the ledger", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(auditRetry):
		}
	}
}

func (a *Audit) project(ctx context.Context, project func(psg.Record) []psg.AuditEntry, told func(AuditHead)) error {
	at, r, err := a.last(ctx)
	if err != nil {
		return err
	}
	end, err := a.bus.end(ctx, ledgerStream)
	if err != nil {
		return err
	}
	if end < at.Sequence { // what comes next there would be told as what followed
		return fmt.Errorf("the ledger ends at record %d, the audit tells of record %d: records are lost", end, at.Sequence)
	}
	if err := a.follows(ctx, r); err != nil {
		return err
	}
	told(at)
	return a.bus.Ledger().Follow(ctx, at.Sequence, func(r psg.Record) error {
		entries := project(r)
		if len(entries) == 0 {
			return nil
		}
		record := psg.AuditRecord{Sequence: r.Sequence, Epoch: r.Epoch, At: r.At, Entries: entries}
		if at.Position > 0 {
			record.Previous = at.Hash[:]
		}
		if at, err = a.append(ctx, at, record); err == nil {
			told(at)
		}
		return err
	})
}

// errElsewhere means that the audit and the ledger do not go together.
var errElsewhere = errors.New("the audit tells of another ledger")

// follows checks that the ledger is the one that the last audit record tells of.
func (a *Audit) follows(ctx context.Context, last psg.AuditRecord) error {
	if last.Sequence == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	found, err := a.bus.ask(bounded, ledgerStream, map[string]any{"seq": last.Sequence})
	if err != nil {
		return fmt.Errorf("read ledger record %d: %w (%w)", last.Sequence, err, psg.ErrUnavailable)
	}
	r, err := wire.DecodeRecord(found.data)
	if err != nil {
		return fmt.Errorf("decode ledger record %d: %w", last.Sequence, err)
	}
	if r.Epoch != last.Epoch || !r.At.Equal(last.At) {
		return fmt.Errorf("ledger record %d is of epoch %d at %s, the audit's of epoch %d at %s: %w", last.Sequence, r.Epoch, r.At, last.Epoch, last.At, errElsewhere)
	}
	return nil
}

// append adds a record after the head. If another was there first, or the
// outcome is unknown, projecting begins anew at whatever is the head then.
func (a *Audit) append(ctx context.Context, after AuditHead, r psg.AuditRecord) (AuditHead, error) {
	data, err := wire.EncodeAuditRecord(r)
	if err != nil {
		return after, err
	}
	bounded, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	_, err = a.bus.js.Publish(bounded, auditSubject, data,
		jetstream.WithExpectStream(auditStream), jetstream.WithExpectLastSequence(after.end))
	if err != nil {
		return after, fmt.Errorf("append audit record of ledger record %d: %w", r.Sequence, err)
	}
	return AuditHead{after.end + 1, r.Sequence, sha256.Sum256(data), after.end + 1}, nil
}

// Head returns the end of the chain; the zero AuditHead if there is none.
func (a *Audit) Head(ctx context.Context) (AuditHead, error) {
	head, _, err := a.last(ctx)
	return head, err
}

// last returns the end of the chain and the record there.
func (a *Audit) last(ctx context.Context) (head AuditHead, r psg.AuditRecord, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	last, err := a.bus.ask(ctx, auditStream, map[string]any{"last_by_subj": auditSubject})
	end := last.position
	for err == nil && last.foreign {
		if last.position == 1 {
			return AuditHead{end: end}, r, nil
		}
		last, err = a.bus.ask(ctx, auditStream, map[string]any{"seq": last.position - 1})
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) && end == 0 {
		return head, r, nil
	}
	if err != nil {
		return head, r, fmt.Errorf("read head of audit: %w (%w)", err, psg.ErrUnavailable)
	}
	if r, err = wire.DecodeAuditRecord(last.data); err != nil {
		return head, r, fmt.Errorf("head of audit: %w", err)
	}
	return AuditHead{last.position, r.Sequence, sha256.Sum256(last.data), end}, r, nil
}

// Read calls visit with every audit record, in order, up to the last there was
// when it began: where it is, the bytes it is stored as, and what they say. It
// stops at the first error of visit. What is in the stream and was not appended by
// an Audit comes without bytes, and says nothing.
func (a *Audit) Read(ctx context.Context, visit func(position uint64, stored []byte, r psg.AuditRecord) error) error {
	last, err := a.bus.end(ctx, auditStream)
	if err != nil {
		return err
	}
	return a.bus.read(ctx, auditStream, 0, last, func(m message) error {
		if m.foreign {
			return visit(m.position, nil, psg.AuditRecord{})
		}
		r, err := wire.DecodeAuditRecord(m.data)
		if err != nil {
			return fmt.Errorf("audit record %d: %w", m.position, err)
		}
		return visit(m.position, m.data, r)
	})
}
