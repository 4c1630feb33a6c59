package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// director is an orchestrator that remembers what it was told.
type director struct {
	mu       sync.Mutex
	steered  []psg.Steering
	stopped  []psg.AllocID
	healed   []psg.JobID
	refuse   error
	onSteer  func(psg.Steering) // before the leader is asked
	shift    psg.ShiftState     // what Shifting says
	blocked  []psg.Blockage     // what Blocked says
	unchange bool               // there is nothing to write
}

func (d *director) Steer(_ context.Context, s psg.Steering, leads func() error) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.onSteer != nil {
		d.onSteer(s)
	}
	if err := leads(); err != nil {
		return false, err
	}
	if d.refuse != nil {
		return false, d.refuse
	}
	d.steered = append(d.steered, s)
	return !d.unchange, nil
}

func (d *director) Shifting(context.Context, psg.JobID) (psg.ShiftState, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.shift, nil
}

func (d *director) Blocked(context.Context) ([]psg.Blockage, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.blocked, d.refuse
}

func (d *director) Stop(_ context.Context, alloc psg.AllocID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stopped = append(d.stopped, alloc)
	return nil
}

func (d *director) Heal(_ context.Context, job psg.JobID) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.healed = append(d.healed, job)
	return true, nil
}

func (d *director) told() (steered []psg.Steering, stopped []psg.AllocID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append(steered, d.steered...), append(stopped, d.stopped...)
}

// directed runs cycles and the duty until done holds.
func (w *world) directed(to Orchestrator, what string, done func() bool) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	duty := make(chan error, 1)
	go func() { duty <- w.Steer(ctx, to) }()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			w.Fatalf("%s: not within 10 s; asks %v", what, w.standing())
		case <-poll.C:
			w.cycle()
		}
	}
	cancel()
	if err := <-duty; !errors.Is(err, context.Canceled) {
		w.Errorf("the duty ended with %v", err)
	}
}

func (w *world) standing() []string {
	var out []string
	for _, s := range w.Asks() {
		out = append(out, fmt.Sprintf("%s %s", s.Ask.ID, s.State))
	}
	return out
}

func TestSteer_ReservesHintsAndStopsWhatWaitsElsewhere(t *testing.T) {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(big, "b", "n1"))
	w.place(0, gate(web, "w1", "n2"))
	if order := w.place(0, gate(web, "w2", "n1"))[0]; order.Kind != psg.Steer || order.Node != "n2" {
		t.Fatalf("order = %+v, want steer to n2", order)
	}
	nomad := &director{}
	nomad.onSteer = func(psg.Steering) {
		if room := w.reserved("steer/w2/"); room == nil || room.Node != "n2" {
			t.Errorf("hinted before room was reserved: %+v", room)
		}
	}
	w.directed(nomad, "w2 is stopped", func() bool { _, stopped := nomad.told(); return len(stopped) == 1 })
	steered, stopped := nomad.told()
	if stopped[0] != "w2" || len(steered) != 1 || !steered[0].Supersede || steered[0].Hints["main"]["n2"] != 2 {
		t.Fatalf("steered %+v, stopped %v; want both instances hinted to n2, then w2 stopped", steered, stopped)
	}
	w.cycle()
	if room := w.reserved("steer/w2/"); room == nil || room.State != psg.Steered {
		t.Errorf("planned room is %+v, want it steered", room)
	}
	w.report(psg.Freed{Ask: "w2", State: psg.Released, At: start})
	if order := w.place(0, gate(web, "w3", "n2"))[0]; order.Kind != psg.Grant {
		t.Errorf("order = %+v, want the new allocation granted where it was steered", order)
	}
	if room := w.reserved("steer/w2/"); room != nil {
		t.Errorf("%+v is still reserved after its allocation was granted", room)
	}
	if got := w.Figures(); got != (SteerFigures{Versions: 1, Stops: 1}) {
		t.Errorf("figures %+v, want one version and one stop", got)
	}
}

// reserved is the room held by an ask whose ID begins so.
func (w *world) reserved(prefix string) *psg.Placement {
	for _, s := range w.Asks() {
		if strings.HasPrefix(string(s.Ask.ID), prefix) && s.Placement != nil {
			return s.Placement
		}
	}
	return nil
}

func TestSteer_DoesNotLoopWhenNomadPutsItBackEachTime(t *testing.T) {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(big, "b", "n1"))
	nomad := &director{}
	tries, again := 0, true
	w.directed(nomad, "three stages are spent", func() bool {
		if _, stopped := nomad.told(); again && len(stopped) == tries {
			if tries > 0 {
				w.report(psg.Freed{Ask: psg.RequestID(stopped[tries-1]), State: psg.Released, At: start})
			}
			tries++
			again = tries <= maxStages
			w.report(psg.WorkloadChanged{Workload: web}, psg.Asked{Ask: gate(web, fmt.Sprint("w", tries), "n1")})
		}
		return !again && w.steers.spentAll(web.ID.JobID())
	})
	if _, stopped := nomad.told(); len(stopped) != maxStages {
		t.Errorf("stopped %v, want %d stages and no more", stopped, maxStages)
	}
}

func TestSteer_TouchesNothingOnceAnotherLeads(t *testing.T) {
	big, web := workload("big", "service", 4000), workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{big.ID: big, web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(big, "b", "n1"))
	w.place(0, gate(web, "w", "n1"))
	nomad := &director{}
	resigned := make(chan struct{})
	end := sync.OnceFunc(func() { w.resign(); close(resigned) })
	nomad.onSteer = func(psg.Steering) { end() }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	duty := make(chan error, 1)
	go func() { duty <- w.Steer(ctx, nomad) }()
	for done := false; !done; {
		select {
		case <-resigned:
			done = true
		case <-ctx.Done():
			t.Fatal("never came to steer")
		default:
			_ = w.Cycle(ctx, w.now)
		}
	}
	cancel()
	<-duty
	if steered, stopped := nomad.told(); len(steered)+len(stopped) > 0 {
		t.Errorf("after its lead ended it steered %v and stopped %v", steered, stopped)
	}
}

func TestHeld_AGangIsReservedAsAWholeAndReleasedWithHints(t *testing.T) {
	gang := workload("train", "training", 1500)
	gang.Count, gang.Gang, gang.Held, gang.Type = 4, "g", true, psg.Batch
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: gang})
	nomad := &director{}
	w.directed(nomad, "its asks are queued", func() bool { return len(w.standing()) == 4 && w.count(psg.Queued) == 4 })
	if steered, _ := nomad.told(); len(steered) > 0 {
		t.Fatalf("released %+v although two of four have no room", steered)
	}
	w.report(psg.NodeChanged{Node: testNode("n2")})
	w.directed(nomad, "the gang is released", func() bool { steered, _ := nomad.told(); return len(steered) > 0 })
	steered, _ := nomad.told()
	if one := steered[0]; !one.Release || one.Hints["main"]["n1"] != 2 || one.Hints["main"]["n2"] != 2 {
		t.Errorf("released with %+v, want two instances on each node", one)
	}
	gang.Held, gang.Version = false, 2
	w.report(psg.WorkloadChanged{Workload: gang})
	for i, node := range []psg.NodeID{"n1", "n1", "n2", "n2"} {
		ask := gate(gang, fmt.Sprint("a", i), node)
		if order := w.place(0, ask)[0]; order.Kind != psg.Grant {
			t.Errorf("instance on %s: %+v, want a grant", node, order)
		}
	}
	if room := w.reserved(heldPrefix); room != nil {
		t.Errorf("%+v is still reserved", room)
	}
}

func (w *world) count(state psg.State) (n int) {
	for _, s := range w.Asks() {
		if s.State == state {
			n++
		}
	}
	return n
}

func TestHeld_AppliedAgainWhileItRunsIsReleasedWithoutNewRoom(t *testing.T) {
	web := workload("web", "service", 100)
	web.Count = 2
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "w1", "n1"), gate(web, "w2", "n1"))
	web.Held, web.Version = true, 2
	w.report(psg.WorkloadChanged{Workload: web})
	nomad := &director{}
	w.directed(nomad, "it is released", func() bool { steered, _ := nomad.told(); return len(steered) > 0 })
	if steered, _ := nomad.told(); steered[0].Hints["main"]["n1"] != 2 {
		t.Errorf("released with %+v, want its instances kept on n1", steered[0])
	}
	if got := len(w.standing()); got != 2 {
		t.Errorf("asks: %v, want the two that run and no others", w.standing())
	}
}

func TestHeld_AsksEndWithTheirWorkload(t *testing.T) {
	web := workload("web", "service", 1<<20)
	web.Count, web.Held = 3, true
	w := newWorld(t, tempLog(t), jobs{})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: web})
	w.cycle()
	if got := w.count(psg.Queued); got != 3 {
		t.Fatalf("%d asks are queued, want 3: %v", got, w.standing())
	}
	fewer := web
	fewer.Count, fewer.Version = 1, 2
	w.report(psg.WorkloadChanged{Workload: fewer})
	w.cycle()
	if got := w.count(psg.Queued); got != 1 {
		t.Errorf("%d asks are queued after the count fell to 1: %v", got, w.standing())
	}
	w.report(psg.WorkloadGone{Workload: web.ID})
	w.cycle()
	if got := w.count(psg.Queued); got != 0 {
		t.Errorf("%d asks outlive their workload: %v", got, w.standing())
	}
}
