package ledger

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// claiming is a placement that waits for others to make way.
func claiming(id psg.RequestID, on psg.NodeID, cpu int64, victims ...psg.RequestID) psg.Placement {
	p := granted(id, on, cpu)
	p.State, p.Expires, p.Victims = psg.Reserved, start.Add(time.Minute), victims
	return p
}

// crowded is a node of 100 MHz that v1 and v2 fill, and two asks that want it.
func crowded(t *testing.T) *State {
	t.Helper()
	s := led(t, node("n", 100), node("m", 100))
	err := apply(s, psg.Asked{Ask: ask("v1")}, psg.Asked{Ask: ask("v2")}, psg.Asked{Ask: ask("p1")}, psg.Asked{Ask: ask("p2")},
		psg.Placed{Placement: granted("v1", "n", 50)}, psg.Placed{Placement: granted("v2", "n", 50)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustApply(t *testing.T, s *State, deltas ...psg.Delta) {
	t.Helper()
	if err := apply(s, deltas...); err != nil {
		t.Fatal(err)
	}
}

func freed(id psg.RequestID) psg.Delta {
	return psg.Freed{Ask: id, State: psg.Released, At: start}
}

func TestClaim_RefusesWhatCannotComeToPass(t *testing.T) {
	for name, wrong := range map[string]struct {
		placement psg.Placement
		want      string
	}{
		"more than the victims leave":   {claiming("p1", "n", 60, "v1"), "over the 50 free"},
		"a victim on another node":      {claiming("p1", "m", 50, "v1"), "is not there"},
		"a victim that holds nothing":   {claiming("p1", "n", 50, "p2"), "is not there"},
		"one victim twice":              {claiming("p1", "n", 60, "v1", "v1"), "already"},
		"for ever":                      {func() psg.Placement { p := claiming("p1", "n", 50, "v1"); p.Expires = time.Time{}; return p }(), "until"},
		"granted at once":               {func() psg.Placement { p := claiming("p1", "n", 50, "v1"); p.State = psg.Granted; return p }(), "granted"},
		"an ask that holds room itself": {claiming("v2", "n", 50, "v1"), "holds room already"},
	} {
		t.Run(name, func(t *testing.T) {
			s := crowded(t)
			if err := s.Admission().Admit(psg.Placed{Placement: wrong.placement}); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("Admit = %v, want %q", err, wrong.want)
			}
			if err := apply(s, psg.Placed{Placement: wrong.placement}); err == nil || !strings.Contains(err.Error(), wrong.want) {
				t.Errorf("Apply = %v, want %q", err, wrong.want)
			}
		})
	}
}

func TestClaim_GivesOneVictimToOnePreemptor(t *testing.T) {
	s := crowded(t)
	first, second := claiming("p1", "n", 50, "v1"), claiming("p2", "n", 50, "v1")
	together := s.Admission()
	if err := together.Admit(psg.Placed{Placement: first}); err != nil {
		t.Fatal(err)
	}
	if err := together.Admit(psg.Placed{Placement: second}); err == nil {
		t.Error("one record may take v1 twice")
	}
	mustApply(t, s, psg.Placed{Placement: first})
	if err := apply(s, psg.Placed{Placement: second}); err == nil {
		t.Error("two records may take v1 twice")
	}
}

func TestClaim_HoldsItsRoomUntilItComesToPass(t *testing.T) {
	s := crowded(t)
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 100, "v1", "v2")})
	if by, claimed := s.ClaimedBy("v2"); !claimed || by != "p1" {
		t.Errorf("v2 makes way for %q, %t", by, claimed)
	}
	final := granted("p1", "n", 100)
	if err := apply(s, psg.Placed{Placement: final}); err == nil || !strings.Contains(err.Error(), `"v1" has yet to make way`) {
		t.Errorf("granted beside its victims: %v", err)
	}
	mustApply(t, s, freed("v1"))
	if err := apply(s, psg.Placed{Placement: granted("p2", "n", 50)}); err == nil {
		t.Error("what v1 left went to p2")
	}
	mustApply(t, s, psg.Moved{Ask: "p1", State: psg.Steered, At: start}) // told too early: it changes nothing
	mustApply(t, s, freed("v2"))
	if left := s.InWay(s.Ask("p1").Placement); len(left) > 0 || len(s.Waiting()) != 1 {
		t.Errorf("in the way: %q; waiting: %q", left, s.Waiting())
	}
	mustApply(t, s, psg.Placed{Placement: final})
	if s.Ask("p1").State != psg.Granted || len(s.Waiting()) > 0 {
		t.Errorf("p1 is %s, waiting %q", s.Ask("p1").State, s.Waiting())
	}
	if _, claimed := s.ClaimedBy("v2"); claimed {
		t.Error("v2 is claimed still")
	}
}

func TestClaim_TwoOnOneNodeComeToPassOneByOne(t *testing.T) {
	s := crowded(t)
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 50, "v1")}, psg.Placed{Placement: claiming("p2", "n", 50, "v2")})
	mustApply(t, s, freed("v1"), psg.Placed{Placement: granted("p1", "n", 50)})
	mustApply(t, s, freed("v2"), psg.Placed{Placement: granted("p2", "n", 50)})
	if used := s.held["n"].request[psg.CPU]; used != 100 {
		t.Errorf("%d MHz are held", used)
	}
}

func TestClaim_GivenUpFreesItsRoomAndItsVictims(t *testing.T) {
	s := crowded(t)
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 100, "v1", "v2")}, freed("v1"))
	if expiring := s.Expiring(); len(expiring) > 0 {
		t.Errorf("%q would end, not wait again", expiring)
	}
	mustApply(t, s, psg.Refused{Refusal: psg.Refusal{Ask: "p1", State: psg.Queued, Summary: "v2 did not end"}, At: start})
	if _, claimed := s.ClaimedBy("v2"); claimed || s.Ask("p1").Placement != nil || s.PendingCount() != 2 {
		t.Errorf("p1 is %+v", s.Ask("p1"))
	}
	mustApply(t, s, psg.Placed{Placement: granted("p2", "n", 50)})
}

func TestClaim_SurvivesAnImage(t *testing.T) {
	s := crowded(t)
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 100, "v1", "v2")})
	again, err := FromImage(s.Image())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Waiting(), s.Waiting()) || !reflect.DeepEqual(again.claims, s.claims) {
		t.Errorf("waiting %q, claims %v", again.Waiting(), again.claims)
	}
}

func TestAudit_NamesVictims(t *testing.T) {
	p := claiming("p1", "n", 100, "v1", "v2")
	entries := Audit(psg.Record{Sequence: 1, Deltas: []psg.Delta{psg.Placed{Placement: p}}})
	if len(entries) != 1 || entries[0].Kind != psg.AuditPreempts || !reflect.DeepEqual(entries[0].Victims, p.Victims) {
		t.Errorf("entries %+v", entries)
	}
}

// gang is two asks of a gang, one that is of none, and two nodes of which each is
// full of one placement.
func gang(t *testing.T) *State {
	t.Helper()
	s := led(t, node("n", 100), node("m", 100))
	members := psg.Workload{ID: ask("p1").Workload, Type: psg.Service, Count: 2, Gang: "g"}
	mustApply(t, s, psg.WorkloadChanged{Workload: members}, psg.Asked{Ask: ask("v1")}, psg.Asked{Ask: ask("v2")},
		psg.Asked{Ask: ask("p1")}, psg.Asked{Ask: ask("p2")}, psg.Asked{Ask: ofNone()},
		psg.Placed{Placement: granted("v1", "n", 100)}, psg.Placed{Placement: granted("v2", "m", 100)})
	return s
}

func ofNone() psg.Ask {
	other := ask("p3")
	other.Workload.Job += "-other"
	return other
}

func TestClaim_MembersOfOneGangWaitForTheSame(t *testing.T) {
	s := gang(t)
	stranger := claiming("p3", "n", 10, "v1")
	stranger.Ask = ofNone()
	together := s.Admission()
	for _, id := range []psg.RequestID{"p1", "p2"} {
		if err := together.Admit(psg.Placed{Placement: claiming(id, "n", 50, "v1")}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	if err := together.Admit(psg.Placed{Placement: stranger}); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("another takes the same victim: %v", err)
	}
	mustApply(t, s, psg.Placed{Placement: claiming("p2", "n", 50, "v1")}, psg.Placed{Placement: claiming("p1", "n", 50, "v1")})
	if by, _ := s.ClaimedBy("v1"); by != "p1" {
		t.Errorf("v1 makes way for %q, want the first by ID", by)
	}
	mustApply(t, s, psg.Refused{Refusal: psg.Refusal{Ask: "p1", State: psg.Queued, Summary: "given up"}, At: start})
	if by, _ := s.ClaimedBy("v1"); by != "p2" {
		t.Errorf("once p1 has given up, v1 makes way for %q", by)
	}
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 50, "v1")}, freed("v1"),
		psg.Placed{Placement: granted("p1", "n", 50)}, psg.Placed{Placement: granted("p2", "n", 50)})
	if used := s.held["n"].request[psg.CPU]; used != 100 || len(s.Waiting()) > 0 {
		t.Errorf("%d MHz are held, %q wait", used, s.Waiting())
	}
	if _, claimed := s.ClaimedBy("v1"); claimed {
		t.Error("v1 is claimed still")
	}
}

func TestClaim_GangWaitsForTheVictimsOnAllItsNodes(t *testing.T) {
	s := gang(t)
	mustApply(t, s, psg.Placed{Placement: claiming("p1", "n", 100, "v1", "v2")}, psg.Placed{Placement: claiming("p2", "m", 100, "v1", "v2")}, freed("v1"))
	if left := s.InWay(s.Ask("p1").Placement); !reflect.DeepEqual(left, []psg.RequestID{"v2"}) {
		t.Errorf("in the way of p1: %q", left)
	}
	early := s.Admission().Admit(psg.Placed{Placement: granted("p1", "n", 100)})
	if early == nil || !strings.Contains(early.Error(), `"v2" has yet to make way`) {
		t.Errorf("half of the gang is placed: %v", early)
	}
	mustApply(t, s, freed("v2"), psg.Placed{Placement: granted("p1", "n", 100)}, psg.Placed{Placement: granted("p2", "m", 100)})
	alone := claiming("p3", "n", 10, "p2")
	alone.Ask = ofNone()
	if err := s.Admission().Admit(psg.Placed{Placement: alone}); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Errorf("one that is of no gang waits for who is elsewhere: %v", err)
	}
}
