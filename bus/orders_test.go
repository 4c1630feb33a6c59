package bus

import (
	"context"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
)

// heard runs a watcher and repeats what is published until it has heard
// something.
func heard[T any](t *testing.T, watch func(ctx context.Context, take func(T)) error, publish func()) T {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	got := make(chan T, 64)
	done := make(chan error, 1)
	go func() {
		done <- watch(ctx, func(v T) {
			select {
			case got <- v:
			default:
			}
		})
	}()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for limit := time.After(10 * time.Second); ; {
		publish()
		select {
		case v := <-got:
			return v
		case <-retry.C:
		case <-limit:
			t.Fatal("nothing was heard")
		}
	}
}

func TestOrders_ReachTheirNodeAlone(t *testing.T) {
	bus := open(t, t.TempDir())
	want := psg.Order{Kind: psg.Freeze, Epoch: 3, Sequence: 9, Node: "rack 1.node*%", Alloc: "a1", Deadline: time.Second}
	got := heard(t, func(ctx context.Context, take func(psg.Order)) error {
		return bus.WatchOrders(ctx, want.Node, take)
	}, func() {
		other := want
		other.Node = "n2"
		for _, o := range []psg.Order{other, want} {
			if err := bus.PublishOrder(o); err != nil {
				t.Fatal(err)
			}
		}
		if err := bus.conn.Publish(OrderSubject(want.Node), []byte("garbage")); err != nil {
			t.Fatal(err)
		}
	})
	if got.Node != want.Node || got.Alloc != want.Alloc || got.Sequence != want.Sequence {
		t.Errorf("heard %+v, want %+v", got, want)
	}
}

func TestReports_OfAnotherNodeAreIgnored(t *testing.T) {
	bus := open(t, t.TempDir())
	want := psg.Report{Node: "n1", Kind: psg.Throttle, Epoch: 1, Sequence: 2, State: psg.ReportDone, At: time.Unix(1, 0).UTC()}
	forged := want
	forged.Node = "victim"
	data, err := wire.EncodeReport(forged)
	if err != nil {
		t.Fatal(err)
	}
	got := heard(t, bus.WatchReports, func() {
		if err := bus.conn.Publish(ReportSubject("attacker"), data); err != nil {
			t.Fatal(err)
		}
		if err := bus.PublishReport(t.Context(), want); err != nil {
			t.Fatal(err)
		}
	})
	if got != want {
		t.Errorf("heard %+v, want %+v", got, want)
	}
}

func TestOrders_WithoutANodeAreNotPublished(t *testing.T) {
	bus := open(t, t.TempDir())
	before := bus.conn.Stats().OutMsgs
	if err := bus.PublishOrder(psg.Order{Kind: psg.Wait, Ask: "a1"}); err != nil {
		t.Fatal(err)
	}
	if sent := bus.conn.Stats().OutMsgs - before; sent != 0 {
		t.Errorf("%d messages sent", sent)
	}
}
