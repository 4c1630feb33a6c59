package controller

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// replacer is an orchestrator that starts another where the job is hinted in place
// of each allocation that it stops, or first where it is shifted. What it does is
// told to the world by live, which the test's own goroutine calls.
type replacer struct {
	director
	*world
	started int
	done    map[psg.AllocID]bool // stopped and replaced
	failing func(psg.Steering) error
	order   []string // what was moved, and where to
	said    *bytes.Buffer
}

// Steer fails as the test says.
func (r *replacer) Steer(ctx context.Context, s psg.Steering, leads func() error) (bool, error) {
	if r.failing != nil {
		if err := r.failing(s); err != nil {
			return false, err
		}
	}
	changed, err := r.director.Steer(ctx, s, leads)
	for _, shift := range s.Shifts {
		r.says(psg.ShiftRuns)
		r.going(psg.AllocID(r.on(s.Job, shift.From)))
	}
	return changed, err
}

// Stop fails the test where room for a successor is not held.
func (r *replacer) Stop(ctx context.Context, alloc psg.AllocID) error {
	r.going(alloc)
	return r.director.Stop(ctx, alloc)
}

// going notes that an allocation is on its way.
func (r *replacer) going(alloc psg.AllocID) {
	status, _ := r.Ask(psg.RequestID(alloc))
	room := r.reserved(fmt.Sprint(movePrefix, alloc, "/"))
	if room == nil {
		r.Errorf("%s goes with nothing reserved: %v", alloc, r.standing())
		return
	}
	if n := r.count(psg.Moving); n != 1 {
		r.Errorf("%d are on their way when %s goes: %v", n, alloc, r.standing())
	}
	r.director.mu.Lock()
	defer r.director.mu.Unlock()
	r.order = append(r.order, fmt.Sprintf("%s %s>%s", status.Ask.Workload.Job, status.Placement.Node, room.Node))
}

// on is what a job runs on a node.
func (r *replacer) on(job psg.JobID, node psg.NodeID) psg.RequestID {
	for _, status := range r.Asks() {
		if status.Ask.Workload.JobID() == job && status.Ask.Alloc != "" && status.Placement != nil && status.Placement.Node == node {
			return status.Ask.ID
		}
	}
	return ""
}

func (r *replacer) moved() []string {
	r.director.mu.Lock()
	defer r.director.mu.Unlock()
	return slices.Clone(r.order)
}

// live goes on with what was stopped or is shifted, and says what runs.
func (r *replacer) live() {
	steered, stopped := r.told()
	for _, alloc := range stopped {
		if status, known := r.Ask(psg.RequestID(alloc)); known && !r.done[alloc] {
			r.done[alloc] = true
			r.report(psg.Freed{Ask: status.Ask.ID, State: psg.Released, At: r.now})
			r.start(status.Ask.Workload, steered)
		}
	}
	for _, job := range []string{"a", "b"} {
		if s := r.steers.shiftOf(drawn(job).ID.JobID()); s != nil {
			r.shifts(s, steered)
		}
	}
	for _, status := range r.Asks() {
		if status.State == psg.Granted {
			r.report(psg.Moved{Ask: status.Ask.ID, State: psg.Running, At: r.now})
		}
	}
}

// shifts goes on with a shift: it starts another, and ends the source once that runs.
func (r *replacer) shifts(s *shift, steered []psg.Steering) {
	source, there := r.on(s.workload.JobID(), s.from), r.on(s.workload.JobID(), s.legs[0].to)
	switch {
	case there == "" && !r.done[psg.AllocID(source)]:
		r.done[psg.AllocID(source)] = true
		r.start(s.workload, steered)
	case there != "" && source != "" && r.state(there) == psg.Running:
		r.report(psg.Freed{Ask: source, State: psg.Released, At: r.now})
		r.says(psg.ShiftDone)
	}
	if err := r.attend(r.Context(), s.workload.JobID(), r); err != nil {
		r.Error(err)
	}
}

// start starts an instance where its job was hinted last.
func (r *replacer) start(id psg.WorkloadID, steered []psg.Steering) {
	for _, s := range slices.Backward(steered) {
		if s.Job == id.JobID() {
			for node := range s.Hints[id.Group] {
				r.started++
				alloc := fmt.Sprintf("%s%d", id.Job, r.started)
				r.report(psg.Asked{Ask: psg.Ask{ID: psg.RequestID(alloc), Alloc: psg.AllocID(alloc), Workload: id, Node: node, At: r.now}})
			}
			return
		}
	}
	r.Errorf("%s was never hinted", id)
}

// crossed is a world in which a and b would each be better off where the other is.
// Neither fits beside the other; a third node has room for one.
func crossed(t *testing.T) *replacer {
	r := crossing(t, tempLog(t))
	for _, one := range []struct{ job, alloc, node psg.NodeID }{{"a", "a0", "n1"}, {"b", "b0", "n2"}} {
		w := drawn(string(one.job))
		r.report(psg.NodeChanged{Node: testNode(one.node)})
		r.place(0, gate(w, string(one.alloc), one.node))
		r.report(psg.Moved{Ask: psg.RequestID(one.alloc), State: psg.Running, At: start})
	}
	r.report(psg.NodeChanged{Node: testNode("n3")})
	r.cycle()
	return r
}

// crossing is the controller of such a world, whatever its log has.
func crossing(t *testing.T, log Log) *replacer {
	w := newWorld(t, log, jobs{drawn("a").ID: drawn("a"), drawn("b").ID: drawn("b")})
	said := &bytes.Buffer{}
	w.config.Improvement = Improvement{Every: time.Second, Moves: 8}
	w.config.Log = slog.New(slog.NewTextHandler(said, nil))
	r := &replacer{world: w, done: map[psg.AllocID]bool{}, said: said}
	r.steers.open(r)
	return r
}

// drawn is a, drawn to n2, or b, drawn to n1.
func drawn(job string) psg.Workload {
	w := workload(job, "service", 3000)
	w.Affinities = []psg.Affinity{{
		Constraint: psg.Constraint{Left: "${node.unique.id}", Operator: psg.Equal, Right: map[string]string{"a": "n2", "b": "n1"}[job], Scope: psg.GroupScope}, Weight: 100,
	}}
	return w
}

// improving runs idle cycles and the duty until done holds or the duty ends, and
// returns how it did.
func (r *replacer) improving(what string, done func() bool) error {
	r.Helper()
	return r.during(r.Improve, what, done)
}

func (r *replacer) during(duty func(context.Context) error, what string, done func() bool) error {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), 30*time.Second)
	defer cancel()
	improved := make(chan error, 1)
	go func() { improved <- duty(ctx) }()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case err := <-improved:
			return err
		case <-ctx.Done():
			r.Fatalf("%s: not in time; moved %q, asks %v\n%s", what, r.moved(), r.standing(), r.said)
		case <-poll.C:
			r.live()
			if err := r.finish(ctx, time.Now()); err != nil {
				r.Fatal(err)
			}
			r.now = r.now.Add(100 * time.Millisecond)
			if err := r.Cycle(ctx, r.now); err != nil {
				return <-improved
			}
		}
	}
	cancel()
	return <-improved
}

// runs reports whether the instances of the two jobs run on two nodes, and nothing
// is on its way.
func (r *replacer) runs(a, b psg.NodeID) bool {
	on := map[string]psg.NodeID{}
	for _, status := range r.Asks() {
		switch {
		case status.Over():
		case status.State != psg.Running || on[status.Ask.Workload.Job] != "":
			return false
		default:
			on[status.Ask.Workload.Job] = status.Placement.Node
		}
	}
	return on["a"] == a && on["b"] == b
}

// idle reports whether nothing that was found is being carried out.
func (r *replacer) idle() bool { return len(r.carrying) == 0 }

func (r *replacer) wantMoved(want ...string) {
	r.Helper()
	if got := r.moved(); !slices.Equal(got, want) {
		r.Errorf("moved %q, want %q\n%s", got, want, r.said)
	}
}
