package placement

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// applied makes the change of a remedy in the twin and reports whether the
// workload fits then; known is false for what the twin has no notion of.
func (w *world) applied(d psg.Workload, r psg.Remedy) (fits, known bool) {
	placements, nodes, denied := slices.Clone(w.placements), slices.Clone(w.nodes), w.denied[d.ID]
	defer func() { w.placements, w.nodes, w.denied[d.ID] = placements, nodes, denied }()
	n := w.node(r.Node)
	switch r.Kind {
	case psg.RemedyAskLess:
		var amount int64
		var name string
		if _, err := fmt.Sscanf(r.Text, "ask for %d %s less", &amount, &name); err != nil {
			return false, true
		}
		dimension, _ := psg.ParseDimension(name)
		d.Request[dimension] -= amount
	case psg.RemedyDrop:
		_, text, _ := strings.Cut(r.Text, "do without constraint ")
		text, _, _ = strings.Cut(text, ": then it fits")
		d.Constraints = slices.DeleteFunc(slices.Clone(d.Constraints), func(c psg.Constraint) bool { return constraintText(c) == text })
	case psg.RemedyStop:
		w.placements = slices.DeleteFunc(slices.Clone(placements), func(p psg.Placement) bool { return p.Ask.ID == r.Ask })
	case psg.RemedyLift:
		switch {
		case strings.Contains(r.Text, "policy p"):
			w.denied[d.ID] = nil
		case strings.Contains(r.Text, "not ready"):
			n.Ready = true
		case strings.Contains(r.Text, "datacenter"):
			d.Datacenters = nil
		case strings.Contains(r.Text, "port"):
			d.Ports = nil
		default:
			return false, false
		}
	}
	return w.fits(d, n), true
}

// anyStop reports whether the end of one placement would do: on its node, or on any
// where a limit in the cluster keeps the workload out.
func (w *world) anyStop(d psg.Workload) bool {
	all, out := w.placements, w.keptOut(d)
	defer func() { w.placements = all }()
	for i := range all {
		w.placements = slices.Delete(slices.Clone(all), i, i+1)
		for _, n := range w.nodes {
			if (out || n.ID == all[i].Node) && w.fits(d, n) {
				return true
			}
		}
	}
	return false
}

// keptOut reports whether a limit in the cluster keeps a workload out.
func (w *world) keptOut(d psg.Workload) bool {
	return slices.ContainsFunc(w.twin.limits, func(l psg.Limit) bool {
		total := 0
		for _, p := range w.placements {
			if l.Covers(w.twin.workloads[p.Ask.Workload].Labels) {
				total++
			}
		}
		return l.Total > 0 && l.Covers(d.Labels) && total >= l.Total
	})
}

// leastLess is the least by which any one dimension must shrink, by dimension.
func (w *world) leastLess(d psg.Workload) bool {
	for _, n := range w.nodes {
		for _, dimension := range []psg.Dimension{psg.CPU, psg.Memory, psg.MemoryMax} {
			less := d
			less.Request[dimension] = 0
			if w.fits(less, n) {
				return true
			}
		}
	}
	return false
}

func TestRemedies_EachAloneMakesItFit(t *testing.T) {
	kinds := map[psg.RemedyKind]int{}
	for seed := range uint64(350) {
		w := newWorld(seed)
		for range 6 {
			if seed >= 250 {
				w.bind()
				w.part()
			}
			p := w.problem()
			plan := w.Solve(p)
			w.agree(t, p, plan)
			for _, refusal := range plan.Refusals {
				i := slices.IndexFunc(p.Asks, func(a psg.Ask) bool { return a.ID == refusal.Ask })
				d := w.twin.workloads[p.Asks[i].Workload]
				offered := map[psg.RemedyKind]bool{}
				for _, r := range refusal.Remedies {
					offered[r.Kind] = true
					fits, known := w.applied(d, r)
					if known && !fits {
						t.Fatalf("seed %d: %+v of %+v, refused because %s, does not make it fit %s", seed, r, d, refusal.Summary, r.Node)
					}
					if known {
						kinds[r.Kind]++
					}
				}
				if w.anyStop(d) != offered[psg.RemedyStop] {
					t.Fatalf("seed %d: one stop would do: %t, offered %+v", seed, w.anyStop(d), refusal.Remedies)
				}
				if w.leastLess(d) != offered[psg.RemedyAskLess] {
					t.Fatalf("seed %d: less of one thing would do: %t, offered %+v; %s", seed, w.leastLess(d), refusal.Remedies, refusal.Summary)
				}
			}
			for _, q := range plan.Placements {
				w.Apply(psg.Placed{Placement: q})
			}
			w.shake()
		}
	}
	for _, kind := range []psg.RemedyKind{psg.RemedyAskLess, psg.RemedyDrop, psg.RemedyStop, psg.RemedyLift} {
		if kinds[kind] < 20 {
			t.Errorf("%d remedies of kind %s: the test shows little", kinds[kind], kind)
		}
	}
}

func TestRemedies_InWords(t *testing.T) {
	tall := plainWorkload("tall", 1)
	tall.Request[psg.CPU] = 4200
	busy, card := gpuWorkload("busy", 3, psg.DeviceAsk{Name: "gpu", Count: 1, MilliGPU: 1000}), gpuWorkload("card", 1, psg.DeviceAsk{Name: "gpu", Count: 2, MilliGPU: 1000})
	busy.Priority, busy.Preemptible, card.Priority = 1, true, 50
	picky := plainWorkload("picky", 1)
	picky.Constraints = []psg.Constraint{{Left: "${meta.rack}", Operator: psg.Equal, Right: "r7"}}
	for _, tc := range []struct {
		asked psg.Workload
		want  []string
	}{
		{tall, []string{"ask for 200 cpu_mhz less: then it fits n1"}},
		{card, []string{"stop busy-000 of default/busy/main on g1, which may be preempted for it", "free 1 more of whole gpu on g1"}},
		{picky, []string{"do without constraint ${meta.rack} = r7: then it fits g1"}},
	} {
		things := []any{tc.asked}
		if tc.asked.ID == tall.ID {
			things = append(things, plainNode("n1"))
		} else {
			things = append(things, busy, gpuNode("g1", "A100", 4))
		}
		c := newCluster(Config{}, things...)
		c.commit(asksFor(busy, 3)...)
		plan := c.solve(asksFor(tc.asked, 1)...)
		wantPlaced(t, plan, 0)
		var got []string
		for _, r := range plan.Refusals[0].Remedies {
			got = append(got, r.Text)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestRemedies_NoneForOneOfAGang(t *testing.T) {
	w := plainWorkload("gang", 9)
	w.Gang = "g"
	plan := newCluster(Config{}, w, plainNode("n1")).solve(asksFor(w, 9)...)
	wantPlaced(t, plan, 0)
	for _, r := range plan.Refusals {
		if len(r.Remedies) > 0 {
			t.Errorf("%+v", r.Remedies)
		}
	}
}

func TestRemedies_OneLessUnderALimit(t *testing.T) {
	fixed, low, urgent := plainWorkload("fixed", 1), plainWorkload("low", 1), plainWorkload("urgent", 1)
	limit := psg.Limit{Name: "licence", Match: map[string]string{"licence": "x"}, Total: 2}
	for _, w := range []*psg.Workload{&fixed, &low, &urgent} {
		w.Labels = limit.Match
	}
	fixed.Priority, low.Priority, low.Preemptible, urgent.Priority, urgent.Request[psg.CPU] = 1, 2, true, 90, 4000
	for nodes, want := range map[int]string{
		1: "",
		2: "stop l of default/low/main on n1, which may be preempted for it",
	} {
		c := newCluster(Config{Limits: []psg.Limit{limit}}, fixed, low, urgent, plainNode("n1"))
		wantPlaced(t, c.commit(gate(fixed, "f", "n1"), gate(low, "l", "n1")), 2)
		if nodes == 2 {
			c.addNode(plainNode("n2"))
		}
		plan := c.solve(hold(urgent, "u"))
		wantSummary(t, plan, 0, psg.Queued, "limit licence: at most 2 in the cluster")
		text := ""
		for _, r := range plan.Refusals[0].Remedies {
			text += r.Text
		}
		if text != want {
			t.Errorf("on %d nodes: %q, want %q", nodes, text, want)
		}
	}
}
