package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// orders is what was sent to agents.
type orders struct {
	mu   sync.Mutex
	sent []psg.Order
	// answer, if set, is what an agent reports on each, at once.
	answer func(psg.Order) *psg.Report
	agents *Agents
}

func (o *orders) send(order psg.Order) error {
	o.mu.Lock()
	o.sent = append(o.sent, order)
	o.mu.Unlock()
	if o.answer != nil {
		if r := o.answer(order); r != nil {
			go o.agents.Reported(*r)
		}
	}
	return nil
}

func (o *orders) last() psg.Order {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.sent[len(o.sent)-1]
}

// tenanted is a world whose node n1 runs a service with a probe, one without, a
// batch job and a preemptible service.
func tenanted(t *testing.T) (*world, *Agents, *orders) {
	w := newWorld(t, tempLog(t), nil)
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	probed := workload("api", "inference", 10)
	probed.Probe = &psg.Probe{Port: "http", Path: "/", Interval: time.Second, Objective: time.Millisecond}
	plain, batch, spare := workload("plain", "web", 10), workload("batch", "etl", 10), workload("spare", "web", 10)
	batch.Type, spare.Preemptible = psg.Batch, true
	batch.Request[psg.CPU], spare.Request[psg.CPU] = 100, 100
	for _, of := range []psg.Workload{probed, plain, batch, spare} {
		w.report(psg.WorkloadChanged{Workload: of})
		ask := gate(of, "alloc-"+of.ID.Job, "n1")
		w.report(psg.Asked{Ask: ask}, psg.Placed{Placement: psg.Placement{Ask: ask, Node: "n1", State: psg.Running, Request: of.Request, Since: w.now}})
	}
	w.cycle()
	o := &orders{}
	o.agents = NewAgents(w.Controller, o.send)
	return w, o.agents, o
}

func TestEntrust_SaysWhoIsProtectedAndWhoYields(t *testing.T) {
	_, agents, sent := tenanted(t)
	if err := agents.entrust(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	if len(sent.sent) != 1 {
		t.Fatalf("sent %+v, want one mandate: n2 runs nothing", sent.sent)
	}
	o := sent.last()
	if o.Kind != psg.Entrust || o.Node != "n1" || o.Epoch == 0 || o.Sequence != 1 || o.Deadline != mandateHolds || o.Mandate.CPU != testNode("n1").Capacity[psg.CPU] {
		t.Errorf("order %+v", o)
	}
	want := map[psg.AllocID]psg.Charge{
		"alloc-api":   {Protected: true},
		"alloc-plain": {},
		"alloc-batch": {Yields: true, Floor: psg.Resources{psg.CPU: 100, psg.Memory: 10, psg.MemoryMax: 10}},
		"alloc-spare": {Yields: true, Floor: psg.Resources{psg.CPU: 10, psg.Memory: 1, psg.MemoryMax: 1}},
	}
	if len(o.Mandate.Charges) != len(want) || !slices.IsSortedFunc(o.Mandate.Charges, func(a, b psg.Charge) int { return strings.Compare(string(a.Alloc), string(b.Alloc)) }) {
		t.Fatalf("charges %+v", o.Mandate.Charges)
	}
	for _, c := range o.Mandate.Charges {
		w := want[c.Alloc]
		if c.Protected != w.Protected || c.Yields != w.Yields || c.Floor != w.Floor || (c.Probe != nil) != w.Protected {
			t.Errorf("%s: %+v, want %+v", c.Alloc, c, w)
		}
	}
}

// TestEntrust_WhatPolicyProtectsDoesNotYield: also where it is preemptible.
func TestEntrust_WhatPolicyProtectsDoesNotYield(t *testing.T) {
	w, agents, sent := tenanted(t)
	w.Controller.policy = always(protecting{w.Controller.policy(), "spare"})
	if err := agents.entrust(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	for _, c := range sent.last().Mandate.Charges {
		if c.Alloc == "alloc-spare" && (c.Yields || !c.Protected) {
			t.Errorf("%+v", c)
		}
	}
}

// protecting protects one job.
type protecting struct {
	Policy
	job string
}

func (p protecting) Rule(ctx context.Context, w *psg.Workload, view *psg.Snapshot) (psg.Ruling, error) {
	ruling, err := p.Policy.Rule(ctx, w, view)
	if w.ID.Job == p.job {
		ruling.Protected = []psg.Reason{{Source: "policy test", Text: "precious"}}
	}
	return ruling, err
}

func TestEntrust_IsTakenBackOnceNobodyYields(t *testing.T) {
	w, agents, sent := tenanted(t)
	if err := agents.entrust(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	for _, job := range []string{"batch", "spare"} {
		w.report(psg.Freed{Ask: psg.RequestID("alloc-" + job), State: psg.Released, At: w.now})
	}
	w.cycle()
	for range 2 {
		if err := agents.entrust(t.Context(), start.Add(mandateEvery)); err != nil {
			t.Fatal(err)
		}
	}
	if len(sent.sent) != 2 || len(sent.last().Mandate.Charges) != 0 || sent.last().Sequence != 2 {
		t.Errorf("sent %+v, want an empty mandate, once", sent.sent)
	}
}

func TestCommand_WaitsForTheReport(t *testing.T) {
	_, agents, sent := tenanted(t)
	sent.answer = func(o psg.Order) *psg.Report {
		return &psg.Report{Node: o.Node, Kind: o.Kind, Epoch: o.Epoch, Sequence: o.Sequence, Alloc: o.Alloc, State: psg.ReportDone, At: start}
	}
	for sequence := range uint64(3) {
		r, err := agents.Command(t.Context(), psg.Order{Kind: psg.Freeze, Alloc: "alloc-batch", Deadline: time.Minute})
		if err != nil || r.State != psg.ReportDone || r.Sequence != sequence+1 || r.Node != "n1" {
			t.Errorf("report %+v, %v", r, err)
		}
	}
	if o := sent.last(); o.Workload.Job != "batch" || o.Ask != "alloc-batch" {
		t.Errorf("sent %+v", o)
	}
	if got := agents.Reports("n1"); len(got) != 3 || agents.Counts()[ReportCount{Kind: psg.Freeze, State: psg.ReportDone}] != 3 {
		t.Errorf("kept %+v, counted %v", got, agents.Counts())
	}
}

func TestCommand_SaysWhatIsWrong(t *testing.T) {
	w, agents, sent := tenanted(t)
	for _, test := range []struct {
		order psg.Order
		want  error
	}{
		{psg.Order{Kind: psg.Grant, Alloc: "alloc-batch"}, psg.ErrInvalid},
		{psg.Order{Kind: psg.Entrust, Node: "n1"}, psg.ErrInvalid},
		{psg.Order{Kind: psg.Freeze, Node: "n1"}, psg.ErrInvalid},
		{psg.Order{Kind: psg.Throttle, Alloc: "alloc-batch", Limit: psg.Resources{-1}}, psg.ErrInvalid},
		{psg.Order{Kind: psg.Freeze, Alloc: "nobody"}, psg.ErrUnknown},
		{psg.Order{Kind: psg.Freeze, Alloc: "alloc-batch", Node: "n2"}, psg.ErrUnknown},
		{psg.Order{Kind: psg.Drain, Node: "n9"}, psg.ErrUnknown},
	} {
		if r, err := agents.Command(t.Context(), test.order); !errors.Is(err, test.want) {
			t.Errorf("%+v: %+v, %v; want %v", test.order, r, err, test.want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := agents.Command(ctx, psg.Order{Kind: psg.Freeze, Alloc: "alloc-batch"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an agent that is silent: %v", err)
	}
	if len(agents.waiting) > 0 || len(sent.sent) != 1 {
		t.Errorf("%d are waited for, %d were sent", len(agents.waiting), len(sent.sent))
	}
	w.mu.Lock()
	w.leading = false
	w.mu.Unlock()
	if _, err := agents.Command(t.Context(), psg.Order{Kind: psg.Freeze, Alloc: "alloc-batch"}); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("without the lead: %v", err)
	}
	if err := agents.entrust(t.Context(), start); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("entrusted without the lead: %v", err)
	}
}

func TestReported_KeepsTheNewestOfNodesThatAreKnown(t *testing.T) {
	_, agents, _ := tenanted(t)
	for i := range uint64(keptReports + 5) {
		agents.Reported(psg.Report{Node: "n1", Sequence: i, Unasked: true})
		agents.Reported(psg.Report{Node: "stranger", Sequence: i})
	}
	if got := agents.Reports("n1"); len(got) != keptReports || got[0].Sequence != 5 {
		t.Errorf("kept %d reports, the first %+v", len(got), got[0])
	}
	if len(agents.reports) != 1 {
		t.Errorf("reports of %d nodes are kept", len(agents.reports))
	}
}

func TestEntrust_ForgetsNodesThatAreGone(t *testing.T) {
	w, agents, _ := tenanted(t)
	agents.Reported(psg.Report{Node: "n1"})
	agents.Reported(psg.Report{Node: "n2"})
	if err := agents.entrust(t.Context(), start); err != nil || !agents.entrusted["n1"] {
		t.Fatalf("entrusted %v, %v", agents.entrusted, err)
	}
	w.report(psg.NodeGone{Node: "n1"})
	w.cycle()
	if err := agents.entrust(t.Context(), start); err != nil || len(agents.entrusted) > 0 || len(agents.reports) != 1 || len(agents.Reports("n2")) != 1 {
		t.Errorf("entrusted %v, reports %v, %v; want n2's alone", agents.entrusted, agents.reports, err)
	}
}
