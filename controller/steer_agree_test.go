package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// onePerNode is a policy that only judging placements one after another keeps to.
const onePerNode = `deny contains "one training workload per node" if {
	input.workload.kind == "training"
	some w in input.node.workloads
	w.kind == "training"
}

score contains ["cache", 5] if {
	input.workload.kind == "cache"
	input.node.name == "n1"
}
`

// said is a verdict without the ID of the request that it answers.
func said(verdicts []psg.Verdict) string {
	var out strings.Builder
	for _, v := range verdicts {
		fmt.Fprintf(&out, "%s %v hold %v rejected %v\n", v.Workload, v.Hint, v.Hold, v.Rejected)
		for _, waits := range v.Waiting {
			id := string(waits.Ask)
			fmt.Fprintf(&out, "  %s %s %s %v\n", id[strings.LastIndex(id, "/"):], waits.State, waits.Summary, waits.Nearest)
		}
	}
	return out.String()
}

// TestPreview_SaysWhatThePlanSaysThen registers job after job until the nodes are
// full, among them gangs and what policy judges by what was placed before, beside
// instances that wait for room: each as it was foreseen.
func TestPreview_SaysWhatThePlanSaysThen(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { foresee(t, rand.New(rand.NewPCG(seed, 7))) })
	}
}

func foresee(t *testing.T, random *rand.Rand) {
	huge := workload("huge", "service", 5000)
	w := newWorld(t, tempLog(t), jobs{huge.ID: huge})
	w.ruledBy(onePerNode)
	for i := range 4 {
		w.report(psg.NodeChanged{Node: testNode(psg.NodeID(fmt.Sprint("n", i)))})
	}
	w.cycle()
	waits, held := false, false
	for i := range 16 {
		if i == 3 { // from here on, somebody waits whom no node has room for
			if order := w.place(0, gate(huge, "h1", "n0"))[0]; order.Kind != psg.Wait {
				t.Fatalf("huge: %+v, want it to wait", order)
			}
		}
		var groups []psg.Workload
		for g := range 1 + random.IntN(3) {
			job := workload(fmt.Sprint("job-", i), []string{"training", "cache", "service"}[random.IntN(3)], 64<<random.IntN(5))
			job.ID.Group, job.Count, job.Version = fmt.Sprint("g", g), 1+random.IntN(5), 0
			if random.IntN(4) == 0 {
				job.Gang = psg.GangID(fmt.Sprint("gang-", i))
			}
			groups = append(groups, job)
		}
		before, _, _ := w.Position()
		foreseen, err := w.Preview(t.Context(), groups)
		if err != nil {
			t.Fatal(err)
		}
		if after, _, _ := w.Position(); after != before {
			t.Fatalf("the preview wrote %d records", after-before)
		}
		planned, err := w.planned(psg.RequestID(fmt.Sprint("plan/", i)), groups...)
		if err != nil {
			t.Fatal(err)
		}
		if said(foreseen) != said(planned) {
			t.Errorf("job %d was foreseen as\n%sand planned as\n%s", i, said(foreseen), said(planned))
		}
		for _, v := range planned {
			waits, held = waits || len(v.Waiting) > 0, held || v.Hold
		}
	}
	if !waits || !held {
		t.Errorf("some wait: %v, some are held: %v; want both", waits, held)
	}
}

func TestPreview_IsBounded(t *testing.T) {
	w := newWorld(t, tempLog(t), nil)
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.cycle()
	one := workload("web", "service", 64)
	for name, workloads := range map[string][]psg.Workload{
		"instances": {counting(one, "a", maxPlanned), counting(one, "b", 1)},
		"groups":    make([]psg.Workload, maxGroups+1),
	} {
		if _, err := w.Preview(t.Context(), workloads); !errors.Is(err, psg.ErrInvalid) {
			t.Errorf("too many %s: %v", name, err)
		}
	}
	for range maxPreviews {
		w.previews <- struct{}{}
	}
	if _, err := w.Preview(t.Context(), []psg.Workload{one}); !errors.Is(err, psg.ErrBusy) {
		t.Errorf("too many at a time: %v", err)
	}
	for range maxPreviews {
		<-w.previews
	}
	if _, err := w.Preview(t.Context(), []psg.Workload{one}); err != nil {
		t.Error(err)
	}
}

func counting(w psg.Workload, group string, count int) psg.Workload {
	w.ID.Group, w.Count = group, count
	return w
}
