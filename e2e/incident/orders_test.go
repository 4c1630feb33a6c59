package incident

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/rpc/node"

	"github.com/nats-io/nats.go"
)

func (r *rig) busy() *task { return r.start(500, nil, built.load, "bystander") }

// TestAgent_CarriesOutOrdersOnce: throttle, freeze and thaw by the bus, on real
// control groups; stale epochs, repeated sequence numbers and garbage.
func TestAgent_CarriesOutOrdersOnce(t *testing.T) {
	r := newRig(t)
	work := r.busy()
	r.startAgent()
	throttle := psg.Order{Kind: psg.Throttle, Alloc: work.alloc, Limit: psg.Resources{psg.Memory: 64, psg.IOPS: 100}, Deadline: time.Minute}
	if got := r.carriedOut(throttle); got.State != psg.ReportDone {
		t.Fatalf("throttle: %+v", got)
	}
	if got := r.get(work, "memory", "memory.limit_in_bytes"); got != "67108864" {
		t.Errorf("memory limit %s", got)
	}
	frozen := r.order(psg.Order{Kind: psg.Freeze, Alloc: work.alloc, Deadline: time.Minute})
	r.until(5*time.Second, "it is frozen", func() bool { return r.get(work, "freezer", "freezer.state") == "FROZEN" })

	// Somebody thaws it by hand: a repeated order does not freeze it again.
	r.set(filepath.Join(work.dirs["freezer"], "freezer.state"), "THAWED")
	stale := psg.Order{Kind: psg.Freeze, Alloc: work.alloc, Epoch: 4, Sequence: 99}
	r.order(frozen)
	if got := r.carriedOut(stale); got.State != psg.ReportRefused || !strings.Contains(got.Reason, "epoch 5 leads") {
		t.Errorf("a stale epoch: %+v", got)
	}
	r.garbage()
	late := psg.Order{Kind: psg.Freeze, Alloc: work.alloc, Sequence: 1}
	_ = r.bus.PublishOrder(late)
	if got := r.carriedOut(psg.Order{Kind: psg.Thaw, Alloc: work.alloc}); got.State != psg.ReportDone {
		t.Errorf("thaw: %+v", got)
	}
	if state, limit := r.get(work, "freezer", "freezer.state"), r.get(work, "memory", "memory.limit_in_bytes"); state != "THAWED" || limit == "67108864" {
		t.Errorf("after thaw: %s, memory limit %s", state, limit)
	}
}

// garbage is what an agent must survive on its subject.
func (r *rig) garbage() {
	r.Helper()
	conn, err := nats.Connect(r.nats.ClientURL())
	if err != nil {
		r.Fatal(err)
	}
	defer conn.Close()
	for _, data := range []string{"", "garbage", "\xff\xff\xff\xff", strings.Repeat("\x0a", 1<<16)} {
		if err := conn.Publish(bus.OrderSubject(nodeID), []byte(data)); err != nil {
			r.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		r.Fatal(err)
	}
}

// TestAgent_KilledWhileItHoldsLeavesNothingFrozen: the next one undoes what is
// past its lease, goes on with what is not, and refuses the old epoch.
func TestAgent_KilledWhileItHoldsLeavesNothingFrozen(t *testing.T) {
	r := newRig(t)
	brief, long := r.busy(), r.busy()
	first := r.startAgent()
	if got := r.carriedOut(psg.Order{Kind: psg.Freeze, Alloc: brief.alloc, Deadline: 2 * time.Second}); got.State != psg.ReportDone {
		t.Fatalf("freeze: %+v", got)
	}
	if got := r.carriedOut(psg.Order{Kind: psg.Freeze, Alloc: long.alloc, Deadline: 5 * time.Minute}); got.State != psg.ReportDone {
		t.Fatalf("freeze: %+v", got)
	}
	_ = r.endAgent(first, syscall.SIGKILL)
	second := r.startAgent()
	r.until(10*time.Second, "what is past its lease is thawed", func() bool { return r.get(brief, "freezer", "freezer.state") == "THAWED" })
	if got := r.carriedOut(psg.Order{Kind: psg.Thaw, Alloc: long.alloc, Epoch: 4, Sequence: 1000}); got.State != psg.ReportRefused {
		t.Errorf("the epoch was forgotten: %+v", got)
	}
	if got := r.get(long, "freezer", "freezer.state"); got != "FROZEN" {
		t.Errorf("what is not past its lease is %s", got)
	}
	if err := r.endAgent(second, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if got := r.get(long, "freezer", "freezer.state"); got != "THAWED" {
		t.Errorf("the agent has ended, and it is %s", got)
	}
}

// TestAgent_UndoByHand: psg-agent -undo lets go what a killed agent left, for
// those who will not start it again.
func TestAgent_UndoByHand(t *testing.T) {
	r := newRig(t)
	work := r.busy()
	a := r.startAgent()
	if got := r.carriedOut(psg.Order{Kind: psg.Freeze, Alloc: work.alloc, Deadline: 5 * time.Minute}); got.State != psg.ReportDone {
		t.Fatalf("freeze: %+v", got)
	}
	_ = r.endAgent(a, syscall.SIGKILL)
	undo := r.startAgent("-undo")
	if err := <-undo.ended; err != nil {
		t.Fatal(err)
	}
	if got := r.get(work, "freezer", "freezer.state"); got != "THAWED" {
		t.Errorf("it is %s", got)
	}
}

// TestAgent_EvictsThroughGRPC: with the token it ends a task that is frozen and
// deaf to SIGTERM; without, nothing.
func TestAgent_EvictsThroughGRPC(t *testing.T) {
	r := newRig(t)
	deaf := r.start(500, nil, "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
	token := strings.Repeat("0123456789abcdef", 3)
	secret := filepath.Join(r.dir, "token")
	if err := os.WriteFile(secret, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:" + freePort(t)
	r.startAgent("-orders-grpc", address, "-orders-token", secret)
	if got := r.carriedOut(psg.Order{Kind: psg.Freeze, Alloc: deaf.alloc, Deadline: time.Minute}); got.State != psg.ReportDone {
		t.Fatalf("freeze: %+v", got)
	}
	give := func(token string) (psg.Report, error) {
		client, err := node.Dial(address, token, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return client.CarryOut(ctx, psg.Order{
			Kind: psg.Evict, Epoch: 5, Sequence: 1000, Node: nodeID, Alloc: deaf.alloc, Deadline: 300 * time.Millisecond,
		})
	}
	if got, err := give("wrong"); err == nil {
		t.Errorf("with a wrong token: %+v", got)
	}
	if got, err := give(token); err != nil || got.State != psg.ReportBegun {
		t.Fatalf("evict: %+v, %v", got, err)
	}
	select {
	case <-deaf.ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it was not ended")
	}
	r.until(10*time.Second, "its end is reported", func() bool {
		return len(r.reported(func(p psg.Report) bool { return p.Kind == psg.Evict && p.State == psg.ReportDone })) == 1
	})
}

const nobody = 65534

// TestAgent_WithoutPermissionSaysSo: an agent that may not write control groups
// reports that, and changes nothing.
func TestAgent_WithoutPermissionSaysSo(t *testing.T) {
	r := newRig(t)
	work := r.busy()
	state := filepath.Join(r.dir, "nobodys")
	if err := errors.Join(os.Mkdir(state, 0o755), os.Chown(state, nobody, nobody), os.Chmod(filepath.Dir(r.dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	r.startAgentAs(nobody, "-state-dir", state)
	got := r.carriedOut(psg.Order{Kind: psg.Freeze, Alloc: work.alloc, Deadline: time.Minute})
	if got.State != psg.ReportFailed || !strings.Contains(got.Reason, "permission denied") {
		t.Errorf("freeze: %+v", got)
	}
	if got := r.get(work, "freezer", "freezer.state"); got != "THAWED" {
		t.Errorf("it is %s", got)
	}
}
