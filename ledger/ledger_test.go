package ledger

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func node(id psg.NodeID, cpu int64, cards ...psg.DeviceID) psg.Node {
	n := psg.Node{ID: id, Ready: true, Capacity: psg.Resources{psg.CPU: cpu, psg.Memory: 1000}}
	for _, card := range cards {
		n.Devices = append(n.Devices, psg.Device{ID: card, Type: "gpu", MemoryMB: 8192, Healthy: true})
	}
	return n
}

func ask(id psg.RequestID) psg.Ask {
	return psg.Ask{ID: id, Alloc: psg.AllocID(id), Workload: psg.WorkloadID{Namespace: "default", Job: "web", Group: "g"}, At: start}
}

func granted(id psg.RequestID, on psg.NodeID, cpu int64) psg.Placement {
	return psg.Placement{Ask: ask(id), Node: on, State: psg.Granted, Request: psg.Resources{psg.CPU: cpu}, Since: start}
}

// led returns a state with one epoch and the given nodes, ready for decisions.
func led(t testing.TB, nodes ...psg.Node) *State {
	t.Helper()
	s := New()
	deltas := []psg.Delta{psg.Led{Epoch: 1, Leader: "a"}}
	for _, n := range nodes {
		deltas = append(deltas, psg.NodeChanged{Node: n})
	}
	if err := s.Apply(psg.Record{Sequence: 1, Epoch: 1, Deltas: deltas}); err != nil {
		t.Fatal(err)
	}
	return s
}

func apply(s *State, deltas ...psg.Delta) error {
	return s.Apply(psg.Record{Sequence: s.Sequence() + 1, Epoch: s.Epoch(), Deltas: deltas})
}

// What is in the log and of no leader counts as a position, and is nothing else.
func TestApply_PassesOverWhatNoLeaderWrote(t *testing.T) {
	s := led(t, node("n", 100))
	if err := s.Apply(psg.Record{Sequence: 2}); err != nil || s.Sequence() != 2 || s.Epoch() != 1 {
		t.Fatalf("Apply = %v, at record %d of epoch %d", err, s.Sequence(), s.Epoch())
	}
	if err := apply(s, psg.NodeGone{Node: "n"}); err != nil || s.Sequence() != 3 {
		t.Errorf("Apply = %v, at record %d", err, s.Sequence())
	}
}

func TestApply_RefusesBrokenRecords(t *testing.T) {
	for name, broken := range map[string]struct {
		record psg.Record
		want   string
	}{
		"gap":            {psg.Record{Sequence: 3, Epoch: 1}, "does not follow"},
		"repeat":         {psg.Record{Sequence: 1, Epoch: 1}, "does not follow"},
		"stale epoch":    {psg.Record{Sequence: 2, Epoch: 0, Deltas: []psg.Delta{psg.NodeGone{Node: "n"}}}, "epoch 0 writes while epoch 1 leads"},
		"unopened epoch": {psg.Record{Sequence: 2, Epoch: 2}, "epoch 2 writes while epoch 1 leads"},
		"epoch reopened": {psg.Record{Sequence: 2, Epoch: 1, Deltas: []psg.Delta{psg.Led{Epoch: 1}}}, "cannot follow"},
		"epoch mismatch": {psg.Record{Sequence: 2, Epoch: 3, Deltas: []psg.Delta{psg.Led{Epoch: 2}}}, "cannot follow"},
		"placed unasked": {psg.Record{Sequence: 2, Epoch: 1, Deltas: []psg.Delta{psg.Placed{Placement: granted("x", "n", 1)}}}, "never asked"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := led(t, node("n", 100)).Apply(broken.record); err == nil || !strings.Contains(err.Error(), broken.want) {
				t.Errorf("Apply = %v, want %q", err, broken.want)
			}
		})
	}
}

func TestPlace_RefusesDecisionsThatDoNotFit(t *testing.T) {
	withCards := func(shares ...psg.DeviceShare) psg.Placement {
		p := granted("b", "n", 1)
		p.Devices = shares
		return p
	}
	for name, wrong := range map[string]struct {
		placement psg.Placement
		want      string
	}{
		"cpu":            {granted("b", "n", 41), "cpu_mhz 41 is over the 40 free"},
		"unknown node":   {granted("b", "m", 1), "node is not known"},
		"card taken":     {withCards(psg.DeviceShare{Device: "card-0", MilliGPU: 500}), "card-0 has 400 milli-GPU free of 500"},
		"card twice":     {withCards(psg.DeviceShare{Device: "card-1", MilliGPU: 600}, psg.DeviceShare{Device: "card-1", MilliGPU: 600}), "1000 milli-GPU free of 1200"},
		"card memory":    {withCards(psg.DeviceShare{Device: "card-1", MemoryMB: 9000}), "8192 MiB free of 9000"},
		"foreign card":   {withCards(psg.DeviceShare{Device: "card-9", MilliGPU: 1}), "not on the node"},
		"port taken":     {psg.Placement{Ask: ask("b"), Node: "n", State: psg.Granted, Ports: []psg.PortShare{{Label: "http", Port: 80}}}, "port 80 is held"},
		"placed already": {granted("a", "spare", 1), `placed on "n" already`},
	} {
		t.Run(name, func(t *testing.T) {
			s := led(t, node("n", 100, "card-0", "card-1"), node("spare", 100))
			first := granted("a", "n", 60)
			first.Devices = []psg.DeviceShare{{Device: "card-0", MilliGPU: 600}}
			first.Ports = []psg.PortShare{{Label: "http", Port: 80}}
			if err := apply(s, psg.Asked{Ask: ask("a")}, psg.Placed{Placement: first}, psg.Asked{Ask: ask("b")}); err != nil {
				t.Fatal(err)
			}
			admitted := s.Admission().Admit(psg.Placed{Placement: wrong.placement})
			folded := apply(s, psg.Placed{Placement: wrong.placement})
			for _, err := range []error{admitted, folded} {
				if err == nil || !strings.Contains(err.Error(), wrong.want) {
					t.Errorf("error = %v, want %q", err, wrong.want)
				}
			}
		})
	}
}

func TestPlace_TakesFactsAsTheyAre(t *testing.T) {
	s := led(t, node("n", 100))
	running := granted("seen", "n", 500)
	running.State = psg.Running
	if err := apply(s, psg.Placed{Placement: running}, psg.Asked{Ask: ask("late")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Admission().Admit(psg.Placed{Placement: granted("late", "n", 1)}); err == nil {
		t.Error("a decision was admitted on a node that is over its capacity already")
	}
}

func TestFreed_GivesRoomBackAndIsRemembered(t *testing.T) {
	s := led(t, node("n", 100))
	free := psg.Freed{Ask: "a", State: psg.Released, Reason: "complete", At: start}
	err := apply(s, psg.Asked{Ask: ask("a")}, psg.Placed{Placement: granted("a", "n", 100)}, free,
		psg.Asked{Ask: ask("a")}, // a late retry is not a new ask
		psg.Asked{Ask: ask("b")}, psg.Placed{Placement: granted("b", "n", 100)})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Ask("a"); got.State != psg.Released || got.Reason != "complete" {
		t.Errorf("a is %+v, want released", got)
	}
	if pending := s.Pending(); len(pending) != 0 {
		t.Errorf("pending = %v, want none", pending)
	}
}

func TestFreed_ForgetsANodeOnWhichNothingIsLeft(t *testing.T) {
	s := led(t)
	for i := range 10 {
		id := psg.RequestID(fmt.Sprint("a", i))
		p := granted(id, psg.NodeID(fmt.Sprint("never-", i)), 1)
		p.State = psg.Running
		if err := apply(s, psg.Placed{Placement: p}, psg.Freed{Ask: id, State: psg.Released}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.held); n != 0 {
		t.Errorf("%d nodes are kept account of", n)
	}
}

func TestFreed_ForgetsTheOldestBeyondTheBound(t *testing.T) {
	s := led(t)
	for i := range Remembered + 10 {
		id := psg.RequestID(fmt.Sprint("ask-", i))
		for _, d := range []psg.Delta{psg.Asked{Ask: ask(id)}, psg.Freed{Ask: id, State: psg.Released}} {
			if err := s.Fold(d, 2); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := len(s.Asks()); got != Remembered {
		t.Errorf("%d asks remembered, want %d", got, Remembered)
	}
	if s.Ask("ask-0") != nil || s.Ask("ask-10") == nil {
		t.Error("not the oldest were forgotten")
	}
}

func TestPlaced_ReturnsFromTheDead(t *testing.T) {
	s := led(t, node("n", 100))
	running := granted("a", "n", 10)
	running.State = psg.Running
	lost := psg.Freed{Ask: "a", State: psg.Lost, Reason: "node down", At: start}
	if err := apply(s, psg.Placed{Placement: running}, lost, psg.Placed{Placement: running}); err != nil {
		t.Fatal(err)
	}
	if got := s.Ask("a"); got.State != psg.Running || got.Reason != "" {
		t.Errorf("a is %+v, want running again", got)
	}
}

func TestExpiring_ListsReservations(t *testing.T) {
	s := led(t, node("n", 100))
	reserved := granted("r", "n", 10)
	reserved.State, reserved.Expires = psg.Reserved, start.Add(time.Minute)
	if err := apply(s, psg.Asked{Ask: ask("r")}, psg.Placed{Placement: reserved}); err != nil {
		t.Fatal(err)
	}
	if ids := s.Expiring(); len(ids) != 1 || ids[0] != "r" {
		t.Errorf("Expiring = %v, want r", ids)
	}
	if err := apply(s, psg.Freed{Ask: "r", State: psg.Released, At: start}); err != nil {
		t.Fatal(err)
	}
	if ids := s.Expiring(); len(ids) != 0 {
		t.Errorf("Expiring = %v of what is over", ids)
	}
}

// history draws deltas that a world and a leader could produce, right and
// wrong ones alike.
func history(rng *rand.Rand) psg.Delta {
	id := psg.RequestID(fmt.Sprint("ask-", rng.IntN(12)))
	on := psg.NodeID(fmt.Sprint("node-", rng.IntN(4)))
	at := start.Add(time.Duration(rng.IntN(1000)) * time.Second)
	switch rng.IntN(9) {
	case 0:
		n := node(on, int64(rng.IntN(200)), "card-0")
		n.Version = uint64(rng.IntN(5))
		return psg.NodeChanged{Node: n}
	case 1:
		return psg.NodeGone{Node: on}
	case 2, 3:
		return psg.Asked{Ask: ask(id)}
	case 4:
		return psg.Refused{Refusal: psg.Refusal{Ask: id, State: psg.Queued, Summary: "full"}, At: at}
	case 5:
		return psg.Freed{Ask: id, State: psg.Released, At: at}
	case 6:
		return psg.Moved{Ask: id, State: psg.Running, At: at}
	default:
		p := granted(id, on, int64(rng.IntN(120)))
		p.Devices = []psg.DeviceShare{{Device: "card-0", MilliGPU: int64(rng.IntN(1200))}}
		if rng.IntN(4) == 0 {
			p.State = psg.Running
		}
		return psg.Placed{Placement: p}
	}
}

func TestFold_Properties(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, twice := led(t), led(t)
		var image psg.Image
		shown := shows(t, image) // when it was made
		for i := range 200 {
			d := history(rng)
			decision, isPlaced := d.(psg.Placed)
			if isPlaced && decision.Placement.State != psg.Running {
				admitted := s.Admission().Admit(d) == nil
				if folds := clone(t, s).Fold(d, 2) == nil; folds != admitted {
					t.Fatalf("seed %d step %d: admitted %t but folds %t: %+v", seed, i, admitted, folds, d)
				}
			}
			news := s.News(d)
			before := s.Snapshot(start)
			if err := s.Fold(d, 2); err != nil {
				continue
			}
			if !news && !reflect.DeepEqual(before, s.Snapshot(start)) {
				t.Fatalf("seed %d step %d: %+v was no news but changed the snapshot", seed, i, d)
			}
			for range 2 {
				if err := twice.Fold(d, 2); err != nil {
					t.Fatalf("seed %d step %d: folding again: %v", seed, i, err)
				}
			}
			if !reflect.DeepEqual(s.Snapshot(start), twice.Snapshot(start)) || !reflect.DeepEqual(s.Asks(), twice.Asks()) {
				t.Fatalf("seed %d step %d: folding %+v twice differs from once", seed, i, d)
			}
			checkHoldings(t, s)
			if i%20 == 0 {
				checkJobs(t, s)
				checkImage(t, s)
				if shows(t, image) != shown {
					t.Fatalf("seed %d step %d: an image made before has changed", seed, i)
				}
				image = s.Image()
				shown = shows(t, image)
			}
			if fresh := clone(t, s).Snapshot(start); !reflect.DeepEqual(s.Snapshot(start), fresh) {
				t.Fatalf("seed %d step %d: after %+v the snapshot is not what one made afresh is", seed, i, d)
			}
		}
	}
}

// clone builds an equal state by other means.
func clone(t *testing.T, s *State) *State {
	t.Helper()
	c := New()
	c.epoch, c.sequence = s.epoch, s.sequence
	for id, n := range s.nodes {
		c.nodes[id] = n
		c.changed.nodes[id] = struct{}{}
	}
	for id, status := range s.asks {
		copied := *status
		c.asks[id] = &copied
		c.changed.asks[id] = struct{}{}
		if copied.Placement != nil {
			c.holdings(copied.Placement.Node).add(copied.Placement)
		}
	}
	return c
}

// checkHoldings compares the running sums with sums made afresh.
func checkHoldings(t *testing.T, s *State) {
	t.Helper()
	fresh := clone(t, s)
	for id, held := range s.held {
		want := fresh.held[id]
		if want == nil {
			want = newHoldings()
		}
		if !reflect.DeepEqual(held, want) {
			t.Fatalf("holdings of %s = %+v, want %+v", id, held, want)
		}
	}
}

// checkJobs compares what is kept by job with what looking at everything finds.
func checkJobs(t *testing.T, s *State) {
	t.Helper()
	workloads, asks := map[psg.JobID][]psg.Workload{}, map[psg.JobID][]psg.AskStatus{}
	found := map[psg.JobID]bool{}
	for _, w := range s.Workloads() {
		job := w.ID.JobID()
		workloads[job], found[job] = append(workloads[job], w), true
	}
	for _, status := range s.Asks() {
		if job := status.Ask.Workload.JobID(); !status.Over() {
			asks[job], found[job] = append(asks[job], status), true
		}
	}
	if len(found) != len(s.jobs) {
		t.Fatalf("%d jobs are kept, want %d", len(s.jobs), len(found))
	}
	for job := range found {
		if gotWorkloads, gotAsks := s.Job(job); !reflect.DeepEqual(gotWorkloads, workloads[job]) || !reflect.DeepEqual(gotAsks, asks[job]) {
			t.Fatalf("job %s: %v %v, want %v %v", job, gotWorkloads, gotAsks, workloads[job], asks[job])
		}
	}
}

// checkImage compares a state with the one that its image gives.
func checkImage(t *testing.T, s *State) {
	t.Helper()
	s.Committed(2) // what the history is folded as
	again, err := FromImage(s.Image())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Image(), s.Image()) || !reflect.DeepEqual(again.Pending(), s.Pending()) ||
		!slices.Equal(again.over, s.over) || !reflect.DeepEqual(again.expiring, s.expiring) {
		t.Fatalf("the state of an image is another: %+v, want %+v", again.Image(), s.Image())
	}
	checkHoldings(t, again)
	checkJobs(t, again)
	var listed []psg.AskStatus
	for _, status := range s.Statuses() {
		listed = append(listed, *status)
	}
	slices.SortFunc(listed, func(a, b psg.AskStatus) int { return strings.Compare(string(a.Ask.ID), string(b.Ask.ID)) })
	if want := s.Asks(); len(want) > 0 && !reflect.DeepEqual(listed, want) {
		t.Fatalf("statuses %+v, want %+v", listed, want)
	}
}

// shows is all that an image shows.
func shows(t *testing.T, image psg.Image) string {
	t.Helper()
	text, err := json.Marshal(image)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFromImage_RefusesWhatIsOfNoState(t *testing.T) {
	placed := granted("a", "n", 1)
	for name, wrong := range map[string][]*psg.AskStatus{
		"twice":    {{Ask: ask("a"), State: psg.Queued}, {Ask: ask("a"), State: psg.Queued}},
		"record 9": {{Ask: ask("a"), State: psg.Queued, Sequence: 9}},
		"granted":  {{Ask: ask("a"), State: psg.Granted}},
		"state is": {{Ask: ask("a"), State: "asleep"}},
		"queued":   {{Ask: ask("a"), State: psg.Queued, Placement: &placed}},
	} {
		if _, err := FromImage(psg.Image{Sequence: 8, Asks: wrong}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("FromImage = %v, want %q", err, name)
		}
	}
}

func BenchmarkFold(b *testing.B) {
	s := led(b, node("n", 1<<40))
	i := 0
	for b.Loop() {
		i++
		id := psg.RequestID(fmt.Sprint(i))
		for _, d := range []psg.Delta{psg.Asked{Ask: ask(id)}, psg.Placed{Placement: granted(id, "n", 1)}, psg.Freed{Ask: id, State: psg.Released}} {
			if err := s.Fold(d, 2); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// What says that it is a record may hold anything.
func TestFold_RefusesStatesThatMakeNoSense(t *testing.T) {
	wrong := granted("a", "n", 1)
	wrong.State = psg.Queued
	for name, d := range map[string]psg.Delta{
		"placed":  psg.Placed{Placement: wrong},
		"refused": psg.Refused{Refusal: psg.Refusal{Ask: "a", State: psg.Granted}},
		"ends":    psg.Freed{Ask: "a", State: psg.Running},
	} {
		s := led(t, node("n", 10))
		if err := s.Fold(psg.Asked{Ask: ask("a")}, 2); err != nil {
			t.Fatal(err)
		}
		before := shows(t, s.Image())
		if err := s.Fold(d, 3); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Fold(%+v) = %v, want it %s in a way that makes no sense", d, err, name)
		}
		if after := shows(t, s.Image()); after != before {
			t.Errorf("%s: the state is %s, was %s", name, after, before)
		}
	}
}

func TestMoved_WhatMovesIsSeenRunningUntilItEnds(t *testing.T) {
	s := New()
	ask := psg.Ask{ID: "a", Workload: psg.WorkloadID{Job: "web", Group: "g"}, Alloc: "a", Node: "n1"}
	fold := func(d psg.Delta, news bool) {
		t.Helper()
		if s.News(d) != news {
			t.Errorf("%+v is news: %t", d, !news)
		}
		if err := s.Fold(d, 1); err != nil {
			t.Fatal(err)
		}
	}
	fold(psg.Placed{Placement: psg.Placement{Ask: ask, Node: "n1", State: psg.Running}}, true)
	fold(psg.Moved{Ask: "a", State: psg.Moving, Reason: "moves to n2"}, true)
	fold(psg.Moved{Ask: "a", State: psg.Running}, false)
	if got := s.Ask("a"); got.State != psg.Moving || got.Reason != "moves to n2" {
		t.Errorf("seen running, it is %s: %q", got.State, got.Reason)
	}
	fold(psg.Moved{Ask: "a", State: psg.Running, Reason: "given up"}, true)
	if got := s.Ask("a"); got.State != psg.Running {
		t.Errorf("given up, it is %s", got.State)
	}
	fold(psg.Moved{Ask: "a", State: psg.Moving, Reason: "moves to n3"}, true)
	fold(psg.Moved{Ask: "a", State: psg.Ending, Reason: "stopped"}, true)
	for _, other := range []psg.State{psg.Running, psg.Moving, psg.Ending} {
		fold(psg.Moved{Ask: "a", State: other}, false)
	}
	fold(psg.Moved{Ask: "a", State: psg.Running, Reason: "given up"}, false)
	fold(psg.Moved{Ask: "a", State: psg.Ending, Reason: "stopped"}, false)
	if got := s.Ask("a"); got.State != psg.Ending || got.Reason != "moves to n3" || got.Placement == nil {
		t.Errorf("what is stopped is %s: %q, holds %v", got.State, got.Reason, got.Placement)
	}
	fold(psg.Freed{Ask: "a", State: psg.Released}, true)
}
