package heal

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

const (
	step      = 200 * time.Millisecond
	objective = 20 * time.Millisecond
	well      = 5 * time.Millisecond
	ill       = 90 * time.Millisecond
)

// node is a scripted node: what its allocations use and how the victim is, from
// one reading to the next.
type node struct {
	t        *testing.T
	d        *Detector
	now      time.Time
	steal    float64
	pressure Amounts
	latency  time.Duration
	slow     bool // holds are not in force as soon as they are decided
	allocs   map[psg.AllocID]*Alloc
	acts     []Act
}

var charges = []psg.Charge{
	{Alloc: "batch", Yields: true},
	{Alloc: "bystander", Yields: true},
	{Alloc: "other"},
	{Alloc: "victim", Protected: true, Probe: &psg.Probe{Interval: step, Objective: objective}},
}

// quietNode has run for two minutes, all well.
func quietNode(t *testing.T) *node {
	n := &node{
		t: t, d: New(), now: time.Unix(1000, 0), latency: well, pressure: Amounts{60, 0, 0},
		allocs: map[psg.AllocID]*Alloc{
			"batch":     {ID: "batch", Use: Amounts{0.05, 10, 0}},
			"bystander": {ID: "bystander", Use: Amounts{1, 500, 3}},
			"other":     {ID: "other", Use: Amounts{0.1, 100, 0}},
			"victim":    {ID: "victim", Use: Amounts{0.3, 100, 1}},
		},
	}
	n.d.Entrust(charges)
	n.run(2 * time.Minute)
	n.none("while all is well")
	return n
}

// run lets time pass and returns the acts of it.
func (n *node) run(for_ time.Duration) []Act {
	n.t.Helper()
	n.acts = nil
	for end := n.now.Add(for_); n.now.Before(end); {
		n.now = n.now.Add(step)
		r := Reading{At: n.now, Steal: n.steal, Pressure: n.pressure}
		for _, id := range []psg.AllocID{"batch", "bystander", "other", "victim"} {
			a, there := n.allocs[id]
			if !there {
				continue
			}
			a.Probes = nil
			if id == "victim" && n.latency > 0 {
				a.Probes = []time.Duration{n.latency}
			}
			r.Allocs = append(r.Allocs, *a)
		}
		for _, act := range n.d.Observe(r) {
			n.acts = append(n.acts, act)
			if act.Hold && !n.slow {
				n.d.Done(act.Alloc, n.now)
			}
		}
	}
	return n.acts
}

func (n *node) none(when string) {
	n.t.Helper()
	if len(n.acts) > 0 {
		n.t.Fatalf("%s: %+v", when, n.acts)
	}
}

// one fails unless exactly one act was done, to an allocation.
func (n *node) one(id psg.AllocID, hold bool) Act {
	n.t.Helper()
	if len(n.acts) != 1 || n.acts[0].Alloc != id || n.acts[0].Hold != hold {
		n.t.Fatalf("acts %+v; want %s alone, hold=%t", n.acts, id, hold)
	}
	return n.acts[0]
}

func TestObserve_HoldsTheOneThatGrew(t *testing.T) {
	for name, test := range map[string]struct {
		use      Amounts
		pressure Amounts
		what     [Resources]bool
	}{
		"CPU":            {Amounts{1.8, 10, 0}, Amounts{95, 0, 0}, [Resources]bool{CPU: true}},
		"memory":         {Amounts{0.1, 400, 0}, Amounts{60, 40, 0}, [Resources]bool{Memory: true}},
		"I/O":            {Amounts{0.1, 10, 300}, Amounts{60, 0, 80}, [Resources]bool{IO: true}},
		"CPU and memory": {Amounts{1.8, 700, 0}, Amounts{95, 50, 0}, [Resources]bool{CPU: true, Memory: true}},
		"PSI unknown":    {Amounts{1.8, 10, 0}, Amounts{math.NaN(), math.NaN(), math.NaN()}, [Resources]bool{CPU: true}},
	} {
		t.Run(name, func(t *testing.T) {
			n := quietNode(t)
			n.allocs["batch"].Use, n.pressure, n.latency = test.use, test.pressure, ill
			n.run(time.Second)
			act := n.one("batch", true)
			if act.What != test.what || act.For != "victim" || !strings.Contains(act.Why, "batch uses much more than usual") {
				t.Errorf("%+v", act)
			}
			if !n.d.Noisy() || !n.d.Urgent() {
				t.Error("the node is neither noisy nor urgent")
			}
		})
	}
}

func TestObserve_BlamesNobody(t *testing.T) {
	for name, spoil := range map[string]func(n *node){
		"the hypervisor steals":         func(n *node) { n.steal = 25 },
		"the victim's own quota":        func(n *node) { n.allocs["victim"].Throttled = 30 },
		"the victim grew more":          func(n *node) { n.allocs["victim"].Use[CPU] = 4 },
		"nothing waits for CPU":         func(n *node) { n.pressure[CPU] = 1 },
		"it is not to be held":          func(n *node) { n.d.Entrust(charges[1:]) },
		"no mandate":                    func(n *node) { n.d.Entrust(nil) },
		"the victim is not to be heard": func(n *node) { n.d.Entrust(charges[:3]) },
		"within its floor": func(n *node) {
			within := append([]psg.Charge{{Alloc: "batch", Yields: true, Floor: psg.Resources{psg.CPU: 1700}}}, charges[1:]...)
			n.d.Entrust(within)
		},
		"the victim is well":   func(n *node) { n.latency = well },
		"nothing is heard":     func(n *node) { n.latency = 0 },
		"another grew instead": func(n *node) { n.allocs["batch"].Use, n.allocs["other"].Use = Amounts{0.05, 10, 0}, Amounts{2, 100, 0} },
		"it always was so":     func(n *node) { n.latency = well; n.run(5 * time.Minute); n.latency = ill },
	} {
		t.Run(name, func(t *testing.T) {
			n := quietNode(t)
			n.allocs["batch"].Use, n.latency = Amounts{1.8, 10, 0}, ill
			spoil(n)
			n.run(5 * time.Second)
			n.none("held")
		})
	}
}

func TestObserve_OneSlowAnswerIsNotSuffering(t *testing.T) {
	n := quietNode(t)
	n.allocs["batch"].Use = Amounts{1.8, 10, 0}
	for range 20 {
		n.latency = ill
		n.run(2 * step)
		n.none("after two slow answers")
		n.latency = well
		n.run(3 * step)
		n.none("after two slow answers")
	}
}

func TestObserve_JudgesByItsOwnPressureWithoutAProbe(t *testing.T) {
	n := quietNode(t)
	n.d.Entrust([]psg.Charge{{Alloc: "batch", Yields: true}, {Alloc: "victim", Protected: true}})
	n.allocs["batch"].Use, n.allocs["victim"].Pressure = Amounts{1.8, 10, 0}, 60
	n.run(time.Second)
	n.one("batch", true)
	n.allocs["victim"].Pressure = math.NaN()
	n.run(2 * time.Second)
	n.none("while its pressure is unknown")
}

func TestTrial_ThatDoesNotHelpIsUndoneAndNotSoonRepeated(t *testing.T) {
	n := quietNode(t)
	n.allocs["batch"].Use, n.latency = Amounts{1.8, 10, 0}, ill
	n.run(time.Second)
	n.one("batch", true)
	n.run(trial)
	act := n.one("batch", false)
	if !strings.Contains(act.Why, "did not help victim") {
		t.Errorf("undone because %q", act.Why)
	}
	n.run(pardon - 2*time.Second)
	n.none("while it is pardoned")
	n.run(4 * time.Second)
	n.one("batch", true)
	n.run(trial)
	n.one("batch", false)
	n.run(longer*pardon - 2*trial)
	n.none("while it is pardoned for longer")
}

// slowNode has decided to hold batch, which is not in force yet.
func slowNode(t *testing.T) *node {
	n := quietNode(t)
	n.slow = true
	n.allocs["batch"].Use, n.latency = Amounts{1.8, 10, 0}, ill
	n.run(time.Second)
	n.one("batch", true)
	return n
}

// TestTrial_BeginsWhenTheHoldIsInForce: a busy node took four seconds for one, and its
// trial was over by then.
func TestTrial_BeginsWhenTheHoldIsInForce(t *testing.T) {
	n := slowNode(t)
	n.run(trial + time.Second)
	n.none("before it is in force")
	n.d.Done("batch", n.now)
	n.run(trial - (moods+2)*step)
	n.none("while it is on trial")
	n.latency = well
	n.run(moods * step)
	n.none("since it helps")
	n.latency = ill
	n.run(firstHold - trial)
	n.none("while it is held")
}

func TestTrial_CreditsNoHoldThatIsNotInForce(t *testing.T) {
	n := slowNode(t)
	n.latency = well
	n.run(2 * moods * step)
	if act := n.one("batch", false); !strings.Contains(act.Why, "well before it was held") {
		t.Errorf("let go because %q", act.Why)
	}
}

func TestTrial_OfAHoldThatFails(t *testing.T) {
	n := slowNode(t)
	n.d.Failed("batch")
	n.run(pardon - 2*time.Second)
	n.none("while it is pardoned")
	n.run(4 * time.Second)
	n.one("batch", true)
}

func TestTrial_EndsAlsoIfNothingIsHeardOfTheHold(t *testing.T) {
	n := slowNode(t)
	n.run(carryOut + trial + step)
	n.one("batch", false)
}

func TestTrial_OfTheNextSuspectWhenTheFirstDidNotHelp(t *testing.T) {
	n := quietNode(t)
	n.allocs["batch"].Use, n.allocs["bystander"].Use, n.latency = Amounts{1.8, 10, 0}, Amounts{2, 500, 3}, ill
	n.run(time.Second)
	n.one("batch", true)
	n.allocs["batch"].Use = Amounts{0.05, 10, 0} // held
	n.run(trial + step)
	if len(n.acts) != 2 || n.acts[0].Alloc != "batch" || n.acts[0].Hold || n.acts[1].Alloc != "bystander" || !n.acts[1].Hold {
		t.Fatalf("acts %+v; want batch released and bystander held", n.acts)
	}
}

// TestHold_LastsLongerEachTime: an allocation that harms whenever it is let go is
// held 15 s, 1 min, 4 min, 5 min.
func TestHold_LastsLongerEachTime(t *testing.T) {
	n := quietNode(t)
	n.allocs["batch"].Use = Amounts{1.8, 10, 0}
	for _, want := range []time.Duration{15 * time.Second, time.Minute, 4 * time.Minute, 5 * time.Minute} {
		n.latency = ill
		n.run(time.Second)
		n.one("batch", true)
		n.latency = well
		n.run(want - 2*time.Second)
		n.none("before its time is over")
		n.run(5 * time.Second)
		n.one("batch", false)
	}
}

func TestHold_EndsWithTheMandate(t *testing.T) {
	for name, entrust := range map[string][]psg.Charge{
		"none": nil, "without it": charges[1:], "protected": {{Alloc: "batch", Protected: true}},
	} {
		n := quietNode(t)
		n.allocs["batch"].Use, n.latency = Amounts{1.8, 10, 0}, ill
		n.run(time.Second)
		n.one("batch", true)
		n.d.Entrust(entrust)
		n.run(step)
		if act := n.one("batch", false); !strings.Contains(act.Why, "no mandate") {
			t.Errorf("%s: %+v", name, act)
		}
	}
}

func TestHold_EndsWithItsAllocation(t *testing.T) {
	n := quietNode(t)
	n.allocs["batch"].Use, n.latency = Amounts{1.8, 10, 0}, ill
	n.run(time.Second)
	n.one("batch", true)
	delete(n.allocs, "batch")
	n.run(absence + 2*step)
	if act := n.one("batch", false); act.Why != "it is gone" {
		t.Errorf("%+v", act)
	}
}

func TestNoisy_UntilAllHasBeenWellForAWhile(t *testing.T) {
	n := quietNode(t)
	if n.d.Noisy() {
		t.Fatal("a quiet node is noisy")
	}
	n.steal, n.latency = 40, ill
	n.run(time.Second)
	if !n.d.Noisy() || !strings.Contains(n.d.Blame(), "hypervisor") {
		t.Errorf("not noisy: %q", n.d.Blame())
	}
	n.steal, n.latency = 0, well
	n.run(calmDown - 2*time.Second)
	if !n.d.Noisy() {
		t.Error("calm too soon")
	}
	n.run(5 * time.Second)
	if n.d.Noisy() || n.d.Blame() != "" {
		t.Error("noisy for ever")
	}
}

func TestNoisy_NotByTheVictimsOwnDoing(t *testing.T) {
	n := quietNode(t)
	n.latency, n.allocs["victim"].Throttled = ill, 50
	n.run(5 * time.Second)
	if n.d.Noisy() {
		t.Errorf("the node is noisy although the victim's quota holds it back: %q", n.d.Blame())
	}
}

// TestObserve_ANewNeighbour: one that came with the harm is to blame, one that had
// been at it for a while is not.
func TestObserve_ANewNeighbour(t *testing.T) {
	for name, test := range map[string]struct {
		before time.Duration // that it has run when the victim begins to suffer
		use    float64
		blamed bool
	}{
		"at once":         {step, 1.8, true},
		"a second":        {time.Second, 1.8, true},
		"little, a while": {6 * time.Second, 0.35, false},
		"much, for long":  {time.Minute, 1.8, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := quietNode(t)
			delete(n.allocs, "batch")
			n.run(5 * time.Second)
			n.allocs["batch"] = &Alloc{ID: "batch", Use: Amounts{test.use, 10, 0}}
			n.run(test.before)
			n.latency = ill
			n.run(time.Second)
			if test.blamed {
				n.one("batch", true)
			} else {
				n.none("held")
			}
		})
	}
}
