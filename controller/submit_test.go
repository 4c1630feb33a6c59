package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

func TestPlace_RefusesAsksThatNothingWouldEnd(t *testing.T) {
	web, other := workload("web", "service", 1), workload("other", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web, other.ID: other})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "a1", "n1"))
	for name, change := range map[string]func(*psg.Ask){
		"an ID of a megabyte":     func(a *psg.Ask) { a.Alloc = psg.AllocID(strings.Repeat("a", 1<<20)); a.ID = psg.RequestID(a.Alloc) },
		"no job":                  func(a *psg.Ask) { a.Workload.Job = "" },
		"no group":                func(a *psg.Ask) { a.Workload.Group = "" },
		"an ID of its own":        func(a *psg.Ask) { a.ID = "mine" },
		"neither alloc nor hold":  func(a *psg.Ask) { a.Alloc = "" },
		"a hold below zero":       func(a *psg.Ask) { a.Hold = -1 },
		"a hold of a century":     func(a *psg.Ask) { a.Hold = 876_000 * time.Hour },
		"started on no node":      func(a *psg.Ask) { a.Started, a.Node = true, "" },
		"started without alloc":   func(a *psg.Ask) { a.Started, a.Alloc, a.Hold = true, "", time.Hour },
		"a controller's own ID":   func(a *psg.Ask) { a.ID, a.Alloc, a.Hold = "held/x", "", time.Hour },
		"another workload's ID":   func(a *psg.Ask) { a.ID, a.Alloc = "a1", "a1"; a.Workload = other.ID },
		"two workloads in a call": func(a *psg.Ask) { a.ID, a.Alloc = "a8", "a8"; a.Workload = other.ID },
	} {
		t.Run(name, func(t *testing.T) {
			wrong := gate(web, "a9", "n1")
			change(&wrong)
			_, _, err := w.Place(t.Context(), []psg.Ask{gate(web, "a8", "n1"), wrong}, 0)
			if !errors.Is(err, psg.ErrInvalid) {
				t.Errorf("Place = %v, want ErrInvalid", err)
			}
		})
	}
	if asks := w.Asks(); len(asks) != 1 {
		t.Errorf("%d asks were accepted, want a1 alone", len(asks))
	}
}

func TestPlace_TakesAnAskAsOfNowWhateverItsClockSays(t *testing.T) {
	web := workload("web", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	before := time.Now()
	for i, at := range []time.Time{{}, before.AddDate(1000, 0, 0), before.AddDate(-1, 0, 0)} {
		ask := gate(web, fmt.Sprint("a", i), "n1")
		ask.At = at
		w.place(0, ask)
		if status, _ := w.Ask(ask.ID); status.Ask.At.After(time.Now()) || status.Ask.At.Before(before) {
			t.Errorf("what says it was asked at %s was asked at %s", at, status.Ask.At)
		}
	}
}

// countedJobs counts what is asked of it.
type countedJobs struct {
	jobs
	asked atomic.Int32
}

func (c *countedJobs) Workload(ctx context.Context, id psg.WorkloadID) (psg.Workload, error) {
	c.asked.Add(1)
	return c.jobs.Workload(ctx, id)
}

func TestPlace_AsksOnceForWhatIsNamedOften(t *testing.T) {
	web := workload("web", "service", 1)
	known := &countedJobs{jobs: jobs{web.ID: web}}
	w := newWorld(t, tempLog(t), nil)
	w.Controller.jobs = known
	asks := make([]psg.Ask, 10_000)
	for i := range asks {
		asks[i] = gate(web, "a1", "n1")
	}
	asks[0] = gate(web, "a0", "n1")
	if err := w.submit(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	if n := known.asked.Load(); n != 1 {
		t.Errorf("the job was read %d times, want once", n)
	}
	if n := len(w.inbox.deltas); n != 3 {
		t.Errorf("%d deltas wait, want the workload and two asks", n)
	}
}

func TestPlace_BoundsWhatWantsAPlace(t *testing.T) {
	web := workload("web", "service", 1_000_000)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.config.Pending = 2
	w.place(0, gate(web, "a1", "n1"), gate(web, "a2", "n1"))
	if _, _, err := w.Place(t.Context(), []psg.Ask{gate(web, "a3", "n1")}, 0); !errors.Is(err, psg.ErrBusy) {
		t.Errorf("Place = %v, want ErrBusy", err)
	}
	started := gate(web, "a4", "n1")
	started.Started = true
	w.place(0, started) // a fact is taken
	w.place(0, gate(web, "a1", "n1"))
}

func TestPlace_AccountsAQueuedAllocationThatThenStartedByItself(t *testing.T) {
	web := workload("web", "service", 6000)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "a1", "n1"), gate(web, "a2", "n1"))
	if w.state("a2") != psg.Queued {
		t.Fatalf("a2 is %s, want queued", w.state("a2"))
	}
	started := gate(web, "a2", "n1")
	started.Started = true
	_, sequence, _ := w.answers([]psg.RequestID{"a2"}, 0)
	seen, _, _ := w.Position()
	if order := w.place(seen, started)[0]; order.Kind != psg.Grant || w.state("a2") != psg.Running {
		t.Errorf("after record %v: order %s, a2 is %s, want it running", sequence, order.Kind, w.state("a2"))
	}
	w.report(psg.Freed{Ask: "a2", State: psg.Released, At: w.now})
	w.cycle()
	if order := w.place(0, started)[0]; order.Kind != psg.Stop {
		t.Errorf("reported late: order %s, want stop: it has ended", order.Kind)
	}
	w.checkLog()
}

func TestPlace_KeepsTheCardsOfAGrantThatWasNotFetched(t *testing.T) {
	train := workload("train", "training", 1)
	train.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 1000}}
	w := newWorld(t, tempLog(t), jobs{train.ID: train})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	if order := w.place(0, gate(train, "a1", "n1"))[0]; len(order.Devices) != 1 {
		t.Fatalf("order = %+v, want a card", order)
	}
	started := gate(train, "a1", "n1")
	started.Started = true
	if order := w.place(0, started)[0]; len(order.Devices) != 1 {
		t.Errorf("order = %+v, want the card still", order)
	}
}

func TestCycle_SurvivesFactsInOddOrders(t *testing.T) {
	web := workload("web", "service", 3000)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	node := testNode("n1")
	node.Version = 5
	w.report(psg.Freed{Ask: "a1", State: psg.Released, At: w.now}, psg.NodeChanged{Node: node})
	w.place(0, gate(web, "a1", "n1"), gate(web, "a2", "n1"), gate(web, "a3", "n1"))

	w.report(psg.WorkloadGone{Workload: web.ID})
	w.cycle()
	w.report(psg.NodeGone{Node: "n1"}, psg.NodeGone{Node: "n1"})
	w.cycle()
	if _, err := w.Rebalance(w.Context(), psg.Rebalance{Node: "nowhere", Max: 1}); err == nil {
		t.Error("a node that does not exist was rebalanced")
	}
	older, smaller := node, node
	older.Version, older.Name = 4, "renamed"
	smaller.Version, smaller.Capacity[psg.Memory] = 6, 1
	w.report(psg.NodeChanged{Node: smaller}, psg.NodeChanged{Node: older}, psg.WorkloadChanged{Workload: web})
	placed := psg.Placement{Ask: gate(web, "a4", "elsewhere"), Node: "elsewhere", State: psg.Running, Request: web.Request, Since: w.now}
	w.report(psg.Placed{Placement: placed}, psg.Placed{Placement: placed})
	order := w.place(0, gate(web, "a5", "n1"))[0]
	if order.Kind != psg.Wait || order.Refusal == nil {
		t.Errorf("order = %+v, want it refused: the node holds more than it has", order)
	}
	if name := w.Snapshot().Nodes[0].Name; name == "renamed" {
		t.Error("an older version of a node replaced a newer")
	}
	for _, id := range []psg.RequestID{"a1", "a2", "a3", "a4", "a5"} {
		w.report(psg.Freed{Ask: id, State: psg.Released, At: w.now})
	}
	w.cycle()
	if held := w.Snapshot().Placements.Len(); held != 0 {
		t.Errorf("%d placements are left", held)
	}
	w.checkLog()
	if err := w.Lead(w.Context(), w.now); err != nil {
		t.Error(err)
	}
}

func TestRun_IsFreeOfRaces(t *testing.T) {
	web, room := workload("web", "service", 1), workload("room", "service", 1) // whose room nobody uses up
	w := newWorld(t, tempLog(t), jobs{web.ID: web, room.ID: room})
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Controller.Run(ctx) }()
	for retry := time.NewTicker(time.Millisecond); ; <-retry.C {
		if _, epoch, _ := w.Position(); epoch == 2 {
			break
		}
	}
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	var group sync.WaitGroup
	for i := range 40 {
		id := fmt.Sprint("a", i)
		group.Go(func() {
			if _, _, err := w.Place(ctx, []psg.Ask{gate(web, id, "n1")}, 0); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			r := psg.Reservation{ID: psg.RequestID("r" + id), Workload: room.ID, Count: 2, Hold: time.Hour}
			if _, _, err := w.Reserve(ctx, r); err != nil {
				t.Error(err)
			}
			r.Release = true
			if _, _, err := w.Reserve(ctx, r); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			node := testNode("n2")
			node.Version = uint64(i)
			_ = w.Report(ctx, []psg.Delta{psg.NodeChanged{Node: node}, psg.Moved{Ask: psg.RequestID(id), State: psg.Running, At: start}})
			w.Observe(psg.NodeObserved{Node: "n2"})
			w.Wake()
			_, _ = w.Rebalance(ctx, psg.Rebalance{Node: "n1", Max: 1}) // nobody attends: an error is right
			_ = w.Snapshot().Nodes
			_ = w.Asks()
		})
	}
	group.Wait()
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	w.checkLog()
}

func TestCycle_CutsARecordThatTheLogDoesNotTake(t *testing.T) {
	web := workload("web", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.log.most = 3
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	asks := make([]psg.Ask, 20)
	for i := range asks {
		asks[i] = gate(web, fmt.Sprint("a", i), "n1")
	}
	for i, order := range w.place(0, asks...) { // all of one workload
		if order.Kind != psg.Grant {
			t.Errorf("order %d is %s, want a grant", i, order.Kind)
		}
	}
	if _, epoch, _ := w.Position(); epoch != 1 {
		t.Errorf("epoch %d: the controller led anew", epoch)
	}
	w.checkLog()
}

func TestMiddle_CutsBetweenWorkloadsWhereItCanAndNeverWithinAGang(t *testing.T) {
	var facts []psg.Delta
	for _, job := range []string{"g", "h"} { // two groups of one gang, which are never cut
		member := workload(job, "service", 1)
		member.Gang = "gang"
		facts = append(facts, psg.WorkloadChanged{Workload: member})
	}
	w := newWorld(t, tempLog(t), nil)
	w.report(facts...)
	w.cycle()
	placed := func(jobs string) (deltas []psg.Delta) {
		for _, job := range jobs {
			id := workload(string(job), "service", 1).ID
			deltas = append(deltas, psg.Placed{Placement: psg.Placement{Ask: psg.Ask{Workload: id}}})
		}
		return deltas
	}
	for jobs, want := range map[string]int{
		"ab": 1, "aab": 2, "abbb": 1, "aaab": 3, "aaaa": 2, "aaabbb": 3, "a": 0, "": 0,
		"gggg": 0, "gghh": 0, "ggha": 3, "aghg": 1, "aagghhb": 6,
	} {
		if at := w.middle(placed(jobs)); at != want {
			t.Errorf("middle(%s) = %d, want %d", jobs, at, want)
		}
	}
}

func TestCycle_RefusesAGangThatNoRecordTakes(t *testing.T) {
	large, small := workload("large", "service", 1), workload("small", "service", 1)
	large.Gang, large.Count, small.Gang, small.Count = "large", 4, "small", 3
	w := newWorld(t, tempLog(t), jobs{large.ID: large, small.ID: small})
	w.log.most = 3
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	for i, order := range w.place(0, gangAsks(large)...) {
		if order.Kind != psg.Wait || order.Refusal == nil || !strings.Contains(order.Refusal.Summary, "too large for one record") {
			t.Errorf("order %d = %+v, want a refusal that says why", i, order)
		}
	}
	for i, order := range w.place(0, gangAsks(small)...) {
		if order.Kind != psg.Grant {
			t.Errorf("order %d of the small gang is %s, want a grant", i, order.Kind)
		}
	}
	if view := w.Snapshot(); view.Placements.Len() != 3 {
		t.Errorf("%d hold room, want the small gang alone", view.Placements.Len())
	}
	w.checkLog()
}

func gangAsks(w psg.Workload) (asks []psg.Ask) {
	for i := range w.Count {
		asks = append(asks, gate(w, fmt.Sprint(w.ID.Job, i), ""))
	}
	return asks
}

func TestReserve_LeavesTheControllersOwnIDsAlone(t *testing.T) {
	w := newWorld(t, tempLog(t), nil)
	for _, id := range []psg.RequestID{"held/x", "steer/x", "plan/x", "move/x"} {
		if _, _, err := w.Reserve(t.Context(), psg.Reservation{ID: id, Release: true}); !errors.Is(err, psg.ErrInvalid) {
			t.Errorf("Reserve(%s) = %v, want ErrInvalid", id, err)
		}
	}
}

func TestApplied_LeadsFromNoStateThatHalfARecordIsIn(t *testing.T) {
	w := newWorld(t, tempLog(t), nil)
	w.resign()
	if err := w.restore(t.Context()); err != nil || !w.restored {
		t.Fatalf("restore = %v, restored %v", err, w.restored)
	}
	sequence, epoch, _ := w.Position()
	placed := psg.Placed{Placement: psg.Placement{Ask: psg.Ask{ID: "never asked"}, Node: "n1", State: psg.Granted}}
	broken := psg.Record{Sequence: sequence + 1, Epoch: epoch, Deltas: []psg.Delta{psg.NodeChanged{Node: testNode("n9")}, placed}}
	if err := w.applied(broken); err == nil {
		t.Fatal("a broken record was folded")
	}
	if err := w.Lead(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	if nodes := w.Snapshot().Nodes; len(nodes) != 0 {
		t.Errorf("%d nodes are left of the broken record", len(nodes))
	}
}

// slowly is a policy that takes its time over each placement.
type slowly struct{ Policy }

func (s slowly) Sequel(view *psg.Snapshot) psg.Sequel { return slowSequel{s.Policy.Sequel(view)} }

type slowSequel struct{ psg.Sequel }

func (s slowSequel) Admit(ctx context.Context, w *psg.Workload, p psg.Placement) ([]psg.Reason, error) {
	<-time.After(judgeFor / 4)
	return s.Sequel.Admit(ctx, w, p)
}

func TestCycle_LeavesTheRestOfAPlanThatPolicyIsSlowOver(t *testing.T) {
	web := workload("web", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.policy = always(slowly{w.policy()})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	asks := make([]psg.Ask, 12)
	for i := range asks {
		asks[i] = gate(web, fmt.Sprintf("a%02d", i), "n1")
	}
	if err := w.submit(t.Context(), asks); err != nil {
		t.Fatal(err)
	}
	for last := 0; last < len(asks); {
		w.cycle()
		placed := w.Snapshot().Placements.Len()
		if n := placed - last; n < 1 || n > 5 {
			t.Fatalf("one cycle placed %d, want some of them and not all", n)
		}
		if last = placed; w.dirty != (placed < len(asks)) {
			t.Errorf("%d of %d placed: dirty is %v", placed, len(asks), w.dirty)
		}
	}
	w.checkLog()
}
