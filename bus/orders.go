package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// PublishOrder publishes an order to its node. The order is committed already,
// or repeated by whoever needs it to be: a lost one is not an error. One without
// a node, such as to wait for an ask that nothing was planned for, is no agent's.
func (b *Bus) PublishOrder(order psg.Order) error {
	if order.Node == "" {
		return nil
	}
	data, err := wire.EncodeOrder(order)
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	return b.conn.Publish(OrderSubject(order.Node), data)
}

// WatchOrders calls carryOut with each order to a node that arrives until ctx
// ends, one at a time. What is not an order is logged and dropped. Who may
// publish there is the server's to hold: see docs/bus.md.
func (b *Bus) WatchOrders(ctx context.Context, node psg.NodeID, carryOut func(psg.Order)) error {
	return b.watch(ctx, OrderSubject(node), func(message *nats.Msg) error {
		order, err := wire.DecodeOrder(message.Data)
		if err == nil {
			carryOut(order)
		}
		return err
	})
}

// PublishReport publishes a report of a node's agent and waits until the server
// has it.
func (b *Bus) PublishReport(ctx context.Context, r psg.Report) error {
	data, err := wire.EncodeReport(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	if err := b.Healthy(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := b.conn.Publish(ReportSubject(r.Node), data); err != nil {
		return fmt.Errorf("publish report: %w", err)
	}
	if err := b.conn.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("publish report: %w", err)
	}
	return nil
}

// WatchReports calls take with each report that arrives until ctx ends. A report
// that is not of its subject's node is logged and dropped.
func (b *Bus) WatchReports(ctx context.Context, take func(psg.Report)) error {
	return b.watch(ctx, reportSubject+"*", func(message *nats.Msg) error {
		r, err := wire.DecodeReport(message.Data)
		if err == nil && ReportSubject(r.Node) != message.Subject {
			err = fmt.Errorf("it is of node %q: %w", r.Node, psg.ErrInvalid)
		}
		if err == nil {
			take(r)
		}
		return err
	})
}

// ignoredEvery is how often at most it is logged that a message was ignored: one
// client could fill the disk.
const ignoredEvery = time.Second

// watch subscribes until ctx ends. What take refuses is logged, now and then.
func (b *Bus) watch(ctx context.Context, subject string, take func(*nats.Msg) error) error {
	var logged time.Time
	more := 0 // since, that were not logged; messages come one at a time
	sub, err := b.conn.Subscribe(subject, func(message *nats.Msg) {
		err := take(message)
		switch {
		case err == nil:
		case time.Since(logged) < ignoredEvery:
			more++
		default:
			b.config.Log.Warn("message ignored", "subject", message.Subject, "error", err, "more", more)
			logged, more = time.Now(), 0
		}
	})
	if err != nil {
		return fmt.Errorf("subscribe to %s: %w", subject, err)
	}
	<-ctx.Done()
	return sub.Drain()
}
