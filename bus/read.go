package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/psgrid/psg"
)

// Streams are read by direct gets, which any server that keeps the stream
// answers from its own store. A consumer would be an assignment that the cluster
// has to agree on, lives on one server and is silent for half a minute when that
// is killed: just then a standby reads the log to its end.

// The bounds of one direct get, and how soon one that found nothing is repeated.
const (
	batchMessages = 1024
	batchBytes    = 8 << 20
	followEvery   = 50 * time.Millisecond  // by who follows a stream
	catchUpEvery  = 10 * time.Millisecond  // by who knows that there is more
	leaderAfter   = 150 * time.Millisecond // without anything of what there must be: ask the stream's leader
	stallTimeout  = 3 * time.Second        // then give up
	quietFor      = 5 * time.Second        // without anything new for who follows: ask where the stream ends
)

// visitor is shown a message of a stream.
type visitor func(message) error

// message is one of a stream.
type message struct {
	position uint64
	data     []byte
	// foreign means that no writer of this stream put it there: see foreign.
	foreign bool
}

// foreign reports whether a message was stored without being meant for its
// stream and its position, which those who append say with each, and the server
// checks. What the server answers to whoever asks goes where they want it to,
// though they may not write there themselves.
func foreign(stream string, position uint64, header nats.Header) bool {
	return header.Get(jetstream.ExpectedStreamHeader) != stream ||
		header.Get(jetstream.ExpectedLastSeqHeader) != strconv.FormatUint(position-1, 10)
}

// read visits the messages of a stream after one position up to another, which
// must be there. The server that answers may have yet to hear of them, and may
// hear late: NATS prefers one that is near to one that is current. Then the
// stream's leader is asked for one message after another.
func (b *Bus) read(ctx context.Context, stream string, after, last uint64, visit visitor) error {
	lags := false
	for heard := time.Now(); after < last; {
		ask := b.batch
		if lags {
			ask = b.fromLeader
		}
		next, err := ask(ctx, stream, after, visit)
		switch {
		case err != nil && !errors.Is(err, errLostBatch):
			return err
		case next > after:
			after, heard = next, time.Now()
		case time.Since(heard) > stallTimeout:
			return fmt.Errorf("read %s after %d, with more to come: %w (%w)", stream, after, cmp.Or(err, errLostBatch), psg.ErrUnavailable)
		default:
			lags = !lags && time.Since(heard) > leaderAfter
			if err := wait(ctx, catchUpEvery); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow visits the messages of a stream after a position as they come, until
// ctx ends or visit fails. While nobody answers it waits; that the stream ends
// before the position, as one that was deleted and made anew, is an error.
func (b *Bus) follow(ctx context.Context, stream string, after uint64, visit visitor) error {
	short := 0 // how often in a row it was found to end too early
	for heard := time.Now(); ; {
		next, err := b.batch(ctx, stream, after, visit)
		if err != nil && !errors.Is(err, errLostBatch) {
			return err
		}
		if next > after {
			after, heard, short = next, time.Now(), 0
			continue
		}
		if time.Since(heard) >= b.quiet {
			end, err := b.end(ctx, stream)
			if errors.Is(err, errAnew) {
				return err
			}
			if heard = time.Now(); err == nil && end < after {
				short++
			} else {
				short = 0
			}
			if short > 1 { // once may be a leader of the stream that has yet to catch up
				return fmt.Errorf("%s ends at %d, before %d: records are lost", stream, end, after)
			}
		}
		if err := wait(ctx, followEvery); err != nil {
			return err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// errLostBatch means that no answer came, or not all of one.
var errLostBatch = errors.New("no server answers")

// batch visits what one direct get brings of what is after a position and
// returns the last position visited. Nothing more being there is no error.
func (b *Bus) batch(ctx context.Context, stream string, after uint64, visit visitor) (uint64, error) {
	inbox := b.conn.NewRespInbox()
	replies, err := b.conn.SubscribeSync(inbox)
	if err != nil {
		return after, lost(err)
	}
	defer func() { _ = replies.Unsubscribe() }() // fails only when the connection is closed
	request, err := json.Marshal(map[string]uint64{"seq": after + 1, "batch": batchMessages, "max_bytes": batchBytes})
	if err != nil {
		return after, err
	}
	if err := b.conn.PublishRequest("$JS.API.DIRECT.GET."+stream, inbox, request); err != nil {
		return after, lost(err)
	}
	for {
		reply, err := next(ctx, replies)
		if err != nil {
			return after, err
		}
		switch status := reply.Header.Get("Status"); status {
		case "": // a message of the stream
		case "204", "404": // the end of the batch; nothing there
			return after, nil
		default:
			return after, lost(fmt.Errorf("status %s %s", status, reply.Header.Get("Description")))
		}
		if of := reply.Header.Get(jetstream.StreamHeader); of != stream { // whoever hears our inbox may have answers sent there
			return after, lost(fmt.Errorf("a message of %q came", of))
		}
		position, err := strconv.ParseUint(reply.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil || position <= after {
			return after, fmt.Errorf("read %s after %d: a message is at %q", stream, after, reply.Header.Get(jetstream.SequenceHeader))
		}
		if err := visit(message{position, reply.Data, foreign(stream, position, reply.Header)}); err != nil {
			return after, err
		}
		after = position
	}
}

// fromLeader is batch for one message, from the leader of the stream.
func (b *Bus) fromLeader(ctx context.Context, stream string, after uint64, visit visitor) (uint64, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := b.ask(bounded, stream, map[string]any{"seq": after + 1})
	switch {
	case err != nil && ctx.Err() != nil:
		return after, ctx.Err()
	case err != nil:
		return after, lost(err)
	case found.position != after+1:
		return after, lost(fmt.Errorf("message %d came", found.position))
	}
	return found.position, visit(found)
}

// ask asks the leader of a stream for a message; jetstream.ErrMsgNotFound means
// that it has none.
func (b *Bus) ask(ctx context.Context, stream string, which map[string]any) (message, error) {
	request, err := json.Marshal(which)
	if err != nil {
		return message{}, err
	}
	answer, err := b.conn.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+stream, request)
	if err != nil {
		return message{}, err
	}
	var told struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(answer.Data, &told); err != nil {
		return message{}, fmt.Errorf("answer of %s: %w", stream, err)
	}
	switch {
	case told.Error == nil:
		var header nats.Header
		if len(told.Message.Header) > 0 {
			if header, err = nats.DecodeHeadersMsg(told.Message.Header); err != nil {
				return message{}, fmt.Errorf("answer of %s: %w", stream, err)
			}
		}
		position := told.Message.Sequence
		return message{position, told.Message.Data, foreign(stream, position, header)}, nil
	case told.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return message{}, jetstream.ErrMsgNotFound
	}
	return message{}, told.Error
}

func next(ctx context.Context, replies *nats.Subscription) (*nats.Msg, error) {
	bounded, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	reply, err := replies.NextMsgWithContext(bounded)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, lost(err)
	}
	return reply, nil
}

func lost(err error) error { return fmt.Errorf("%w: %w", errLostBatch, err) }

// end returns the position of the last message of a stream, by its leader. A
// stream that was deleted and made anew since it was first asked for is an error.
func (b *Bus) end(ctx context.Context, stream string) (uint64, error) {
	found, err := patiently(ctx, func(ctx context.Context) (jetstream.Stream, error) { return b.js.Stream(ctx, stream) })
	if err != nil {
		return 0, fmt.Errorf("ask where %s ends: %w (%w)", stream, err, psg.ErrUnavailable)
	}
	info := found.CachedInfo()
	if first, known := b.made.LoadOrStore(stream, info.Created); known && !info.Created.Equal(first.(time.Time)) {
		return 0, fmt.Errorf("%s was made anew at %s: %w", stream, info.Created.Format(time.RFC3339), errAnew)
	}
	return info.State.LastSeq, nil
}

// errAnew means that what is known is of a stream that is no more.
var errAnew = errors.New("records are lost")

// firstTry is how long the first try of a question waits for its answer.
const firstTry = 200 * time.Millisecond

// patiently repeats a question until requestTimeout is over. Servers drop those
// that come while they elect a leader, so that waiting long for one answer is
// waiting for nothing; each try waits longer than the one before, for servers
// that are only slow.
func patiently[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for try := firstTry; ; try *= 2 {
		bounded, cancel := context.WithTimeout(ctx, try)
		answer, err := ask(bounded)
		if err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			<-bounded.Done() // an error that came at once would come again
		}
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, jetstream.ErrStreamNotFound) {
			return answer, err
		}
	}
}
