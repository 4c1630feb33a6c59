package policies

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// tiers are the sets of one bundle, by the highest tier each may use.
type tiers [3]*Set

func loadTiers(t *testing.T, text string) (tiers, bool) {
	t.Helper()
	dir := bundleDir(t, text)
	var out tiers
	for tier := range out {
		bound := Tier(tier)
		set, err := Config{Timeout: time.Minute, Sample: -1, MaxTier: &bound}.Load(dir)
		if err != nil {
			return out, false // generated text need not be a policy
		}
		out[tier] = set
	}
	return out, true
}

func (s tiers) feed(t *testing.T, source string, value any, at time.Time) {
	t.Helper()
	for _, set := range s {
		if err := set.Feed(source, value, at); err != nil {
			t.Fatal(err)
		}
	}
}

// agree rules with all tiers and compares every row.
func (s tiers) agree(t *testing.T, w *psg.Workload, view *psg.Snapshot) bool {
	t.Helper()
	want := rule(t, s[Oracle], w, view)
	points := want.Points(len(view.Nodes))
	for tier := Compiled; tier <= Columnar; tier++ {
		got := rule(t, s[tier], w, view)
		gave, denied := got.Points(len(view.Nodes)), got.Denied(len(view.Nodes))
		for row := range view.Nodes {
			why := want.Why(row)
			if !slices.Equal(got.Why(row), why) || denied.Has(row) != (len(why) > 0) || gave[row] != points[row] {
				t.Errorf("%s on row %d: denied %t for %q with %d milli-points; OPA says %q with %d", tier, row,
					denied.Has(row), texts(got.Why(row)), gave[row], texts(why), points[row])
				return false
			}
		}
	}
	return true
}

// columns reports whether a workload was decided by columns.
func (s tiers) columns(w *psg.Workload) bool {
	c := s[Columnar].classes[w.ID]
	return c != nil && c.parts[0].program != nil
}

// tally is what has been compared.
type tally struct{ pairs, policies, classes, columnar int }

// compare compares the tiers on one generated policy, on so many nodes, through
// several views. A generated text that is no policy counts nothing.
func (g generator) compare(t *testing.T, nodes int, total *tally) {
	const views = 3
	text := g.bundle()
	sets, ok := loadTiers(t, text)
	if !ok {
		return
	}
	total.policies++
	s := g.cluster(nodes)
	workloads := []*psg.Workload{g.workload(), g.workload(), g.workload()}
	for view := range views {
		if view != 1 {
			sets.feed(t, "src", g.source(s), s.At)
			sets.feed(t, "by", g.source(s), s.At)
		}
		for _, w := range workloads {
			if !sets.agree(t, w, s) {
				t.Fatalf("policy %d, view %d, workload %+v:\n%s", total.policies, view, w, text)
			}
			total.pairs += nodes
			total.classes++
			if sets.columns(w) {
				total.columnar++
			}
		}
		s = g.later(s)
	}
}

// later is a snapshot in which some of everything has changed.
func (g generator) later(s *psg.Snapshot) *psg.Snapshot {
	next := &psg.Snapshot{At: s.At.Add(time.Duration(g.IntN(2)) * time.Second), Nodes: slices.Clone(s.Nodes),
		Workloads: s.Workloads, Placements: s.Placements}
	for range 6 {
		g.change(&next.Nodes[g.IntN(len(next.Nodes))])
		g.observe(&next.Nodes[g.IntN(len(next.Nodes))])
	}
	if n := next.Placements.Len(); n > 2 {
		next.Placements = nudged(next.Placements, g.IntN(n), nil)
	}
	return next
}

func TestTiers_SayTheSame(t *testing.T) {
	const pairs, nodes = 100_000, 100
	g, done := generator{rand.New(rand.NewPCG(1, 1))}, tally{}
	for tried := 0; done.pairs < pairs; tried++ {
		if tried > 1000+10*done.policies {
			t.Fatalf("only %d of %d generated texts are policies", done.policies, tried)
		}
		g.compare(t, nodes, &done)
	}
	t.Logf("%d pairs, %d policies, %d of %d rulings by columns", done.pairs, done.policies, done.columnar, done.classes)
	if done.columnar < done.classes/10 {
		t.Error("too few rulings are by columns: they are hardly tested")
	}
}

// FuzzTiers goes on with other policies for as long as it is let. What one input
// costs is kept small: a fuzzing process that is at one for more than 10 s, or is
// still at it 1 s after its time is over, counts as hung.
func FuzzTiers(f *testing.F) {
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) {
		generator{rand.New(rand.NewPCG(seed, 1))}.compare(t, 10, new(tally))
	})
}
