package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// PublishTelemetry publishes a sample of a node. It does not wait for the
// stream: telemetry that is lost is soon replaced.
func (b *Bus) PublishTelemetry(_ context.Context, sample psg.Sample) error {
	data, err := wire.EncodeSample(sample)
	if err != nil {
		return fmt.Errorf("encode telemetry of %s: %w", sample.Node, err)
	}
	return b.conn.Publish(TelemetrySubject(sample.Node), data)
}

// Reconnects counts how often the connection was lost and is back: what was
// published just before may not have arrived.
func (b *Bus) Reconnects() uint64 { return b.conn.Stats().Reconnects }

// WatchTelemetry calls take with each sample that arrives until ctx ends, one
// after another, and asks agents for full ones. What is not a sample, or is an
// error to take, is dropped, and that is logged now and then. While take is behind by more than NATS's pending limits, further
// samples are dropped and that is logged.
func (b *Bus) WatchTelemetry(ctx context.Context, take func(psg.Sample) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.askForFull(ctx) })
	group.Go(func() error {
		return b.watch(ctx, telemetrySubject+"*", func(message *nats.Msg) error {
			node, ok := nodeOf(strings.TrimPrefix(message.Subject, telemetrySubject))
			if !ok {
				return errors.New("the subject names no node")
			}
			sample, err := wire.DecodeSample(node, message.Data)
			if err == nil {
				err = take(sample)
			}
			return err
		})
	})
	return group.Wait()
}

// askForFull asks now, and whenever the connection was away.
func (b *Bus) askForFull(ctx context.Context) error {
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for asked := ^uint64(0); ; {
		if n := b.Reconnects(); n != asked && b.Healthy() == nil {
			if err := b.conn.Publish(resyncSubject, nil); err != nil {
				return fmt.Errorf("ask for full samples: %w", err)
			}
			asked = n
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// askEvery is how often it is looked whether the connection was away.
const askEvery = time.Second

// OnResync calls asked whenever a controller asks for full samples, for as long
// as the bus is open.
func (b *Bus) OnResync(asked func()) error {
	if _, err := b.conn.Subscribe(resyncSubject, func(*nats.Msg) { asked() }); err != nil {
		return fmt.Errorf("subscribe to %s: %w", resyncSubject, err)
	}
	return nil
}

// nodeOf reads a subject token that token has made.
func nodeOf(escaped string) (psg.NodeID, bool) {
	first, rest, more := strings.Cut(escaped, "%")
	var out strings.Builder
	out.WriteString(first)
	for more {
		if len(rest) < 2 {
			return "", false
		}
		b, err := strconv.ParseUint(rest[:2], 16, 8)
		if err != nil {
			return "", false
		}
		out.WriteByte(byte(b))
		first, rest, more = strings.Cut(rest[2:], "%")
		out.WriteString(first)
	}
	node := psg.NodeID(out.String())
	return node, token(node) == escaped
}
