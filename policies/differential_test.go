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

// differential compares the tiers on generated policies until so many pairs
// have been ruled on, through several views each.
func differential(t *testing.T, seed uint64, pairs int) {
	const nodes, views = 100, 3
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	done, policies, columnar, classes := 0, 0, 0, 0
	for tried := 0; done < pairs; tried++ {
		if tried > 1000+10*policies {
			t.Fatalf("only %d of %d generated texts are policies", policies, tried)
		}
		text := g.bundle()
		sets, ok := loadTiers(t, text)
		if !ok {
			continue
		}
		policies++
		s := g.cluster(nodes)
		workloads := []*psg.Workload{g.workload(), g.workload(), g.workload()}
		for view := range views {
			if view != 1 {
				sets.feed(t, "src", g.source(s), s.At)
				sets.feed(t, "by", g.source(s), s.At)
			}
			for _, w := range workloads {
				if !sets.agree(t, w, s) {
					t.Fatalf("seed %d, policy %d, view %d, workload %+v:\n%s", seed, policies, view, w, text)
				}
				done += nodes
				classes++
				if sets.columns(w) {
					columnar++
				}
			}
			s = g.later(s)
		}
	}
	t.Logf("%d pairs, %d policies, %d of %d rulings by columns", done, policies, columnar, classes)
	if policies > 50 && columnar < classes/10 {
		t.Error("too few rulings are by columns: they are hardly tested")
	}
}

// later is a snapshot in which some of everything has changed.
func (g generator) later(s *psg.Snapshot) *psg.Snapshot {
	next := &psg.Snapshot{At: s.At.Add(time.Duration(g.IntN(2)) * time.Second), Nodes: slices.Clone(s.Nodes),
		Workloads: s.Workloads, Placements: slices.Clone(s.Placements)}
	for range 6 {
		g.change(&next.Nodes[g.IntN(len(next.Nodes))])
		g.observe(&next.Nodes[g.IntN(len(next.Nodes))])
	}
	if len(next.Placements) > 2 {
		i := g.IntN(len(next.Placements))
		next.Placements = slices.Delete(next.Placements, i, i+1)
	}
	return next
}

func TestTiers_SayTheSame(t *testing.T) {
	differential(t, 1, 100_000)
}

// FuzzTiers goes on with other policies for as long as it is let.
func FuzzTiers(f *testing.F) {
	f.Add(uint64(2))
	f.Fuzz(func(t *testing.T, seed uint64) { differential(t, seed, 900) })
}
