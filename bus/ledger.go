package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/internal/flood"
	"github.com/psgrid/psg/wire"
)

// appendTimeout bounds one append.
const appendTimeout = 3 * time.Second

// Ledger is the log behind package ledger: one stream with one writer. It
// implements the controller's Log.
type Ledger struct {
	bus *Bus
}

// Ledger returns the log. CreateStreams must have been called on this cluster.
func (b *Bus) Ledger() *Ledger { return &Ledger{b} }

// What a record takes in bytes beside its deltas, and its message beside the
// record, and more; and what a delta takes in a record beside itself. An audit
// record is no larger than its ledger record and the hash that it carries: what is
// left of recordRoom is enough for that.
const (
	recordRoom = 1024
	deltaRoom  = 8
)

// Check reports why deltas could never be appended in one record, such as an
// amount out of range, as psg.ErrInvalid with the field.
func (l *Ledger) Check(deltas ...psg.Delta) error {
	var size int64
	for _, d := range deltas {
		data, err := wire.EncodeDelta(d)
		if err != nil {
			return err
		}
		size += int64(len(data)) + deltaRoom
	}
	if limit := l.bus.conn.MaxPayload(); limit > 0 && size+2*recordRoom > limit {
		return fmt.Errorf("%T and %d more are %d bytes, more than fits into the server's max_payload of %d: %w",
			deltas[0], len(deltas)-1, size, limit, psg.ErrInvalid)
	}
	return nil
}

// Append adds a record at r.Sequence, which must be the next free position,
// and returns when it is synced to disk. psg.ErrNotLeader means that somebody
// else wrote that position: nothing was appended, and the caller must replay.
// psg.ErrInvalid means that the record is too large for one message: nothing was
// appended, and it may come in parts.
// psg.ErrUnavailable means that the log could not be asked whether the record
// is in it: the caller must replay before it appends or tells anything.
func (l *Ledger) Append(ctx context.Context, r psg.Record) error {
	data, err := wire.EncodeRecord(r)
	if err != nil {
		return fmt.Errorf("encode record %d: %w", r.Sequence, err)
	}
	if limit := l.bus.conn.MaxPayload(); int64(len(data))+recordRoom > limit {
		return fmt.Errorf("record %d is %d bytes, over the server's max_payload of %d: %w", r.Sequence, len(data), limit, psg.ErrInvalid)
	}
	if err := l.bus.Healthy(); err != nil {
		return fmt.Errorf("append record %d: %w", r.Sequence, err)
	}
	bounded, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	message := &nats.Msg{Subject: ledgerSubject, Data: data}
	_, err = l.bus.js.PublishMsg(bounded, message,
		jetstream.WithExpectStream(ledgerStream), jetstream.WithExpectLastSequence(r.Sequence-1))
	if err == nil {
		return nil
	}
	return l.settle(ctx, r.Sequence, data, err)
}

// settle finds out what became of an append that reported an error: the
// acknowledgement alone may have been lost.
func (l *Ledger) settle(ctx context.Context, sequence uint64, data []byte, cause error) error {
	ctx = context.WithoutCancel(ctx)
	stored, err := patiently(ctx, func(ctx context.Context) ([]byte, error) {
		stored, err := l.bus.ask(ctx, ledgerStream, map[string]any{"seq": sequence})
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, nil
		}
		return stored.data, err
	})
	switch {
	case err != nil:
		return fmt.Errorf("append record %d: %w, then read back: %w (%w)", sequence, cause, err, psg.ErrUnavailable)
	case stored == nil:
		// Not there now, but it may still be on its way to the stream.
		return fmt.Errorf("append record %d: %w (%w)", sequence, cause, psg.ErrUnavailable)
	case bytes.Equal(stored, data):
		return nil
	default:
		return fmt.Errorf("append record %d: another is there: %w", sequence, psg.ErrNotLeader)
	}
}

// Replay calls fold with every record after a position, in order, up to the
// last one there was when it began. It stops at fold's first error. What is in the
// log and was not appended by a Ledger comes as a record of no epoch that holds
// nothing, and that is logged.
func (l *Ledger) Replay(ctx context.Context, after uint64, fold func(psg.Record) error) error {
	last, err := l.bus.end(ctx, ledgerStream)
	if err != nil {
		return err
	}
	if last < after {
		return fmt.Errorf("the ledger ends at record %d, before record %d: records are lost", last, after)
	}
	return l.bus.read(ctx, ledgerStream, after, last, l.folding(fold))
}

// Follow calls fold with every record after a position, in order, as they are
// appended, until ctx ends. It stops at fold's first error; while the log cannot
// be read it waits.
func (l *Ledger) Follow(ctx context.Context, after uint64, fold func(psg.Record) error) error {
	return l.bus.follow(ctx, ledgerStream, after, l.folding(fold))
}

// folding decodes records for fold.
func (l *Ledger) folding(fold func(psg.Record) error) visitor {
	var logged flood.Limit
	return func(m message) error {
		if m.foreign {
			if left, ok := logged.Take(time.Now()); ok {
				l.bus.config.Log.Error("the ledger holds what no controller appended: passed over", "record", m.position, "bytes", len(m.data), "left_out", left)
			}
			return fold(psg.Record{Sequence: m.position})
		}
		record, err := wire.DecodeRecord(m.data)
		if err != nil {
			return fmt.Errorf("decode record %d: %w", m.position, err)
		}
		record.Sequence = m.position
		return fold(record)
	}
}
