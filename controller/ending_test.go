package controller

import (
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// standing is an instance of a workload on a node, in some state.
func standing(w psg.Workload, id psg.RequestID, node psg.NodeID, state psg.State) psg.AskStatus {
	ask := psg.Ask{ID: id, Workload: w.ID, Alloc: psg.AllocID(id)}
	return psg.AskStatus{Ask: ask, State: state, Placement: &psg.Placement{Ask: ask, Node: node, State: state}}
}

// What ends has a place, and is none of the instances that are wanted.
func TestEnding_IsNoInstanceOfWhatIsHeld(t *testing.T) {
	w := workload("web", "service", 64)
	w.Count, w.Held = 2, true
	asks := []psg.AskStatus{standing(w, "a", "n1", psg.Ending), standing(w, "b", "n1", psg.Running)}
	if releasable([]psg.Workload{w}, asks) {
		t.Error("released with room for one of two")
	}
	if !releasable([]psg.Workload{w}, append(asks, standing(w, "c", "n2", psg.Reserved))) {
		t.Error("not released with room for both")
	}
	c := newWorld(t, tempLog(t), jobs{}).Controller
	if asked := c.fill(&w, asks, start); len(asked) != 1 {
		t.Errorf("asked for %v, want one more", asked)
	}
}

func TestPlan_PlansInPlaceOfWhatNomadStops(t *testing.T) {
	w, web := spread3(t)
	for _, id := range []psg.RequestID{"w1", "w2"} {
		w.report(psg.Moved{Ask: id, State: psg.Ending, Reason: "Nomad stops it", At: start})
	}
	w.cycle()
	if _, live := w.standingOf(web.ID); live != 1 {
		t.Errorf("%d instances stand, want the one that stays", live)
	}
	if !w.lacking(web.ID.JobID()) {
		t.Error("none lacks a place although two of three end")
	}
}

func TestKept_HintsNoSourceThatHasBeenStopped(t *testing.T) {
	w := workload("web", "service", 64)
	asks := kept([]psg.AskStatus{standing(w, "a", "n1", psg.Moving), standing(w, "b", "n1", psg.Ending)}, []leg{{source: "a"}, {source: "b"}})
	if hint := hints([]psg.Workload{w}, asks)[w.ID.Group]; hint["n1"] != 1 {
		t.Errorf("hinted %v, want the source that runs on alone", hint)
	}
}

func TestResumed_TakesForItsOwnWhatLeavesTheSameNode(t *testing.T) {
	w := workload("web", "service", 64)
	w.Shifting = true
	for name, test := range map[string]struct {
		asks []psg.AskStatus
		legs int
	}{
		"somebody stops another":   {[]psg.AskStatus{standing(w, "a", "n1", psg.Moving), standing(w, "z", "n5", psg.Ending)}, 1},
		"one has been stopped":     {[]psg.AskStatus{standing(w, "a", "n1", psg.Moving), standing(w, "b", "n1", psg.Ending)}, 2},
		"all of it has been so":    {[]psg.AskStatus{standing(w, "a", "n1", psg.Ending), standing(w, "b", "n1", psg.Ending)}, 2},
		"what stays is not moved":  {[]psg.AskStatus{standing(w, "a", "n1", psg.Moving), standing(w, "b", "n1", psg.Running)}, 1},
		"nothing of it is to move": {[]psg.AskStatus{standing(w, "b", "n1", psg.Running)}, 0},
	} {
		if s := resumed([]psg.Workload{w}, test.asks, time.Now()); len(s.legs) != test.legs || test.legs > 0 && s.from != "n1" {
			t.Errorf("%s: %d legs from %q, want %d", name, len(s.legs), s.from, test.legs)
		}
	}
}

// The successor came before Nomad stopped the source: since when that moves tells it
// from those that were there.
func TestResumed_KnowsTheSuccessorOfWhatHasBeenStopped(t *testing.T) {
	w, _, nomad := begunShift(t)
	w.steers.open(nomad)
	defer w.steers.close()
	moving, _ := w.Ask("w1")
	w.report(psg.Moved{Ask: "w1", State: psg.Ending, Reason: "Nomad stops it", At: time.Now().Add(time.Minute)})
	w.cycle()
	ending, _ := w.Ask("w1")
	if ending.State != psg.Ending || !ending.Since.Equal(moving.Since) || ending.Reason != moving.Reason {
		t.Errorf("w1 is %s since %v: %q; want it ending since %v: %q", ending.State, ending.Since, ending.Reason, moving.Since, moving.Reason)
	}
}
