package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// PublishTelemetry publishes one observation of a node. It does not wait for
// the stream: telemetry that is lost is soon replaced.
func (b *Bus) PublishTelemetry(_ context.Context, seen psg.NodeObserved) error {
	data, err := wire.EncodeNodeSample(seen, b.samples.Add(1))
	if err != nil {
		return fmt.Errorf("encode telemetry of %s: %w", seen.Node, err)
	}
	return b.conn.Publish(TelemetrySubject(seen.Node), data)
}

// WatchTelemetry calls observe with each observation that arrives until ctx
// ends. While observe is behind by more than NATS's pending limits, further
// observations are dropped and that is logged.
func (b *Bus) WatchTelemetry(ctx context.Context, observe func(psg.NodeObserved)) error {
	sub, err := b.conn.Subscribe(telemetrySubject+"*", func(message *nats.Msg) {
		seen, _, err := wire.DecodeNodeSample(message.Data)
		if err != nil || TelemetrySubject(seen.Node) != message.Subject {
			b.config.Log.Warn("telemetry ignored: not an observation of its subject's node", "subject", message.Subject, "error", err)
			return
		}
		observe(seen)
	})
	if err != nil {
		return fmt.Errorf("subscribe to telemetry: %w", err)
	}
	<-ctx.Done()
	return sub.Drain()
}
