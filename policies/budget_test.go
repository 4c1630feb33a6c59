package policies

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// hot denies by telemetry, in a way that keeps it from the columns.
const hot = "deny contains \"hot\" if to_number(sprintf(\"%v\", [input.node.telemetry.cpu_percent.mean])) > 50\n"

// heated is a cluster whose nodes have a mean of so many percent each.
func heated(at time.Time, percent ...float64) *psg.Snapshot {
	s := cluster(make([][]*psg.Workload, len(percent))...)
	s.At = at
	for i := range s.Nodes {
		s.Nodes[i].Telemetry = &psg.Telemetry{At: at, Metrics: map[string]psg.Stats{"cpu_percent": {Mean: percent[i]}}}
	}
	return s
}

func TestRule_SpreadsWhatTelemetryChangesOverCycles(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1, Budget: 2, MaxAge: 4 * time.Second}, one(hot))
	if tier := set.Status().Policies[0].Tier; tier != Compiled {
		t.Fatalf("the policy is in %s", tier)
	}
	w, began := gpuJob("training", 1), time.Unix(1000, 0)
	for step, c := range []struct {
		percent []float64
		denied  []int
	}{
		{[]float64{10, 10, 10, 10, 10}, nil},
		{[]float64{10, 90, 10, 90, 10}, []int{1, 3}},       // within the budget
		{[]float64{90, 10, 90, 90, 90}, []int{0, 3}},       // 0 and 1; 2 and 4 wait
		{[]float64{91, 10, 91, 90, 90}, []int{0, 2, 3, 4}}, // 2 and 4; 0, which is within the deadband, waits
		{[]float64{91, 10, 91, 90, 90}, []int{0, 2, 3, 4}}, // 0
	} {
		s := heated(began.Add(time.Duration(step)*500*time.Millisecond), c.percent...)
		ruling := rule(t, set, w, s)
		if got := slices.Collect(ruling.Denied(5).All()); !slices.Equal(got, c.denied) {
			t.Errorf("step %d: denied on %v, want %v", step, got, c.denied)
		}
	}
	if got := set.Counters().Deferred; got != 2+1 {
		t.Errorf("%d deferred", got)
	}
}

func TestRule_LetsNoVerdictGrowOlderThanItMay(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1, Budget: 1, MaxAge: 3 * time.Second}, one(hot))
	w, began := gpuJob("training", 1), time.Unix(1000, 0)
	rule(t, set, w, heated(began, 10, 10, 10, 10))
	for seconds := 1; seconds <= 3; seconds++ {
		heat := 80 + 5*float64(seconds)
		s := heated(began.Add(time.Duration(seconds)*time.Second), heat, heat, heat, heat)
		want := seconds
		if seconds == 3 {
			want = 4
		}
		if ruling := rule(t, set, w, s); ruling.Denied(4).Count() != want {
			t.Errorf("after %d s denied on %d nodes, want %d", seconds, ruling.Denied(4).Count(), want)
		}
	}
}

// What is not measured is never put off.
func TestRule_PutsNothingElseOff(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1, Budget: 1}, one(hot+"\ndeny contains \"full\" if count(input.node.workloads) > 0\n"))
	w, began := gpuJob("training", 1), time.Unix(1000, 0)
	rule(t, set, w, heated(began, 10, 10, 10))
	next := cluster([]*psg.Workload{w}, []*psg.Workload{w}, []*psg.Workload{w})
	for i, n := range heated(began.Add(time.Second), 90, 90, 90).Nodes {
		next.Nodes[i].Telemetry = n.Telemetry
	}
	next.At = began.Add(time.Second)
	ruling := rule(t, set, w, next)
	for row := range 3 {
		if why := texts(ruling.Why(row)); !slices.Equal(why, []string{"full", "hot"}) {
			t.Errorf("row %d: %q", row, why)
		}
	}
}

// Nodes that are alike in all that a policy reads of them are judged once.
func TestRule_JudgesAlikeNodesOnce(t *testing.T) {
	set := mustLoad(t, Config{Sample: 1, Workers: 1}, one("deny contains \"odd\" if to_number(input.node.attributes.n) == 1\n"))
	s := cluster(make([][]*psg.Workload, 30)...)
	for i := range s.Nodes {
		s.Nodes[i].Attributes = map[string]string{"n": fmt.Sprint(i % 3)}
	}
	if ruling := rule(t, set, gpuJob("training", 1), s); ruling.Denied(30).Count() != 10 || !ruling.Denied(30).Has(28) {
		t.Errorf("denied on %v", ruling.Denied(30))
	}
	if got := set.Counters().Pairs; got != 3 {
		t.Errorf("%d pairs were judged, want one of each kind", got)
	}
}

func TestCheck_SaysWhatWaits(t *testing.T) {
	var out strings.Builder
	if err := (Config{}).Check(bundleDir(t, one(hot)), &out, true); err != nil || !strings.Contains(out.String(), "reads measurements pair by pair: beyond 4096 such pairs a cycle, verdicts are up to 10s old, and changes within 2 % wait so long\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
