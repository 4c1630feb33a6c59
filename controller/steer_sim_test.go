package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// whimsical is an orchestrator of which nobody knows how it answers, and when what it
// was told comes about.
type whimsical struct {
	mu      sync.Mutex
	rng     *rand.Rand
	hints   map[psg.JobID]psg.Hint
	allocs  []*simAlloc
	steps   int
	made    int
	dropped bool // a stop came to nothing, and nobody was told
}

type simAlloc struct {
	of         psg.Workload
	id         string
	node       psg.NodeID
	runs, ends int // the steps at which it does; 0 for not yet known
	asked      bool
}

func (o *whimsical) Steer(_ context.Context, s psg.Steering, leads func() error) (bool, error) {
	o.mu.Lock()
	luck := o.rng.IntN(10)
	o.mu.Unlock()
	if luck == 0 {
		return false, fmt.Errorf("a deployment runs: %w", psg.ErrBusy)
	}
	if err := leads(); err != nil {
		return false, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if hint, named := s.Hints["main"]; named {
		o.hints[s.Job] = hint
	}
	if luck == 1 {
		return true, errors.New("the answer is lost")
	}
	return true, nil
}

func (o *whimsical) Stop(_ context.Context, id psg.AllocID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	luck := o.rng.IntN(8)
	dropped := luck == 1 && !o.dropped // once: what moves then does for minutes
	o.dropped = o.dropped || dropped
	if luck == 0 {
		return errors.New("forbidden")
	}
	for _, a := range o.allocs {
		if a.id == string(id) && a.ends == 0 && !dropped {
			a.ends = o.steps + 1 + o.rng.IntN(8000)
		}
	}
	if luck <= 2 {
		return fmt.Errorf("the answer is lost: %w", psg.ErrUnavailable)
	}
	return nil
}

func (o *whimsical) Shifting(context.Context, psg.JobID) (psg.ShiftState, error) {
	return psg.ShiftGone, nil
}

func (o *whimsical) Heal(context.Context, psg.JobID) (bool, error)   { return false, nil }
func (o *whimsical) Blocked(context.Context) ([]psg.Blockage, error) { return nil, nil }

// start starts an instance where it is hinted, or anywhere.
func (o *whimsical) start(w psg.Workload) {
	o.made++
	have := psg.Hint{}
	for _, a := range o.allocs {
		if a.of.ID == w.ID {
			have[a.node]++
		}
	}
	node := psg.NodeID(fmt.Sprint("n", 1+o.rng.IntN(3)))
	for _, wanted := range []psg.NodeID{"n1", "n2", "n3"} {
		if o.hints[w.ID.JobID()][wanted] > have[wanted] && o.rng.IntN(8) > 0 {
			node = wanted
		}
	}
	o.allocs = append(o.allocs, &simAlloc{of: w, id: fmt.Sprint(w.ID.Job, "-", o.made), node: node})
}

// step lets time pass, and returns what a watcher and the gates tell of it.
func (o *whimsical) step(state func(psg.RequestID) psg.State) (told []psg.Delta) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps++
	for _, a := range slices.Clone(o.allocs) {
		id := psg.RequestID(a.id)
		switch {
		case a.ends > 0 && a.ends <= o.steps:
			o.allocs = slices.DeleteFunc(o.allocs, func(b *simAlloc) bool { return a == b })
			told = append(told, psg.Freed{Ask: id, State: psg.Released, Reason: "complete", At: time.Now()})
			o.start(a.of)
		case !a.asked:
			a.asked = true
			ask := gate(a.of, a.id, a.node)
			ask.At = time.Now()
			told = append(told, psg.Asked{Ask: ask})
		case a.runs == 0 && state(id) == psg.Granted:
			a.runs = o.steps + 1 + o.rng.IntN(3000)
		case a.runs > 0 && a.runs <= o.steps && o.rng.IntN(500) == 0: // Nomad tells it again and again, also while it ends
			told = append(told, psg.Moved{Ask: id, State: psg.Running, At: time.Now()})
		}
	}
	return told
}

// running are the instances of a workload that run and were not told to end.
func (o *whimsical) running(id psg.WorkloadID) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.allocs {
		if a.of.ID == id && a.runs > 0 && a.runs <= o.steps && a.ends == 0 {
			n++
		}
	}
	return n
}

// TestMoves_NeverTakeDownMoreThanTheGroupAllows has moves made, and strays led, by an
// orchestrator that answers late, wrongly or not at all.
func TestMoves_NeverTakeDownMoreThanTheGroupAllows(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { newSim(t, seed).run(25) })
	}
}

// sim is a controller whose orchestrator is whimsical.
type sim struct {
	*world
	to        *whimsical
	workloads []psg.Workload
	up        map[psg.WorkloadID]bool // all of it has run
}

// newSim is one of four workloads of three instances, of which one may be down.
func newSim(t *testing.T, seed uint64) *sim {
	s := &sim{up: map[psg.WorkloadID]bool{}, to: &whimsical{rng: rand.New(rand.NewPCG(seed, 1)), hints: map[psg.JobID]psg.Hint{}}}
	known := jobs{}
	for i := range 4 {
		w := workload(fmt.Sprint("web", i), "service", 128)
		w.Count, w.Disruption = 3, &psg.Disruption{Order: psg.StopFirst, MaxUnavailable: 1}
		s.workloads, known[w.ID] = append(s.workloads, w), w
		for range w.Count {
			s.to.start(w)
		}
	}
	s.world = newWorld(t, tempLog(t), known)
	s.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")}, psg.NodeChanged{Node: testNode("n3")})
	for _, w := range s.workloads {
		s.report(psg.WorkloadChanged{Workload: w})
	}
	return s
}

// run has moves requested, one request after the other, until so many were begun.
func (s *sim) run(moves int) {
	ctx, cancel := context.WithTimeout(s.Context(), 30*time.Second)
	defer cancel()
	duty := make(chan error, 1)
	go func() { duty <- s.Steer(ctx, s.to) }()
	begun := make(chan int, 1)
	for asked := false; moves > 0; {
		if ctx.Err() != nil {
			s.Errorf("%d moves were not begun in time: %v", moves, s.standing())
			break
		}
		s.report(s.to.step(s.state)...)
		s.cycle()
		s.check()
		if !asked && len(s.up) == len(s.workloads) {
			asked = true
			s.hurry()
			go func() { begun <- s.ask(ctx) }()
		}
		select {
		case n := <-begun:
			moves, asked = moves-n, false
		default:
		}
	}
	cancel()
	<-duty
}

// ask asks for moves off some node.
func (s *sim) ask(ctx context.Context) int {
	s.to.mu.Lock()
	node := psg.NodeID(fmt.Sprint("n", 1+s.to.rng.IntN(3)))
	s.to.mu.Unlock()
	done, _ := s.Rebalance(ctx, psg.Rebalance{Node: node, Empty: true, Max: 4})
	return len(done.Orders)
}

// hurry has what would wait for a minute not wait.
func (s *sim) hurry() {
	s.steers.mu.Lock()
	defer s.steers.mu.Unlock()
	clear(s.steers.emptied)
	for _, job := range s.steers.jobs {
		job.still, job.budget = time.Time{}, budget{}
	}
}

// check fails if fewer of a workload run than may, once all have.
func (s *sim) check() {
	s.Helper()
	for i := range s.workloads {
		w := &s.workloads[i]
		n := s.to.running(w.ID)
		if n == w.Count {
			s.up[w.ID] = true
		}
		if s.up[w.ID] && n < w.Count-allowedDown(w) {
			s.Fatalf("%d instances of %s run of %d: %v", n, w.ID, w.Count, s.standing())
		}
	}
}
