package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/rpc"
)

func TestMover_AsksAgainWhenOthersAreBeingMoved(t *testing.T) {
	asked := 0
	face := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked == 1 {
			rpc.WriteError(w, psg.ErrBusy)
			return
		}
		_ = json.NewEncoder(w).Encode(rebalanced{})
	}))
	defer face.Close()
	var shown bytes.Buffer
	m := mover{c: &command{ctx: t.Context(), stdout: &shown}, at: address(face.URL), node: "n1", body: rebalanceBody{Empty: true}}
	if err := m.run(time.Minute); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times, want it to end well with the second\n%s", err, asked, &shown)
	}
	asked = 0
	if err := m.run(0); err == nil {
		t.Errorf("ended well although nothing could be begun: %s", &shown)
	}
}

// answering serves what a controller says to one request for moves after another;
// the last again and again.
func answering(t *testing.T, answers ...any) address {
	asked := 0
	face := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := answers[min(asked, len(answers)-1)]
		asked++
		if err, failed := answer.(error); failed {
			rpc.WriteError(w, err)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(face.Close)
	return address(face.URL)
}

func TestMover_SaysWhatWasDoneAndWhatStays(t *testing.T) {
	web := psg.WorkloadID{Namespace: "default", Job: "web", Group: "g"}
	begun := rebalanced{On: 2, Rebalanced: psg.Rebalanced{Orders: []psg.Order{{Alloc: "a1", Workload: web, Node: "n2"}}}}
	ended := rebalanced{On: 1, Rebalanced: psg.Rebalanced{
		Finished: []psg.Move{{Alloc: "a1", Successor: "a9", To: "n2", Versions: 1, Writes: 2, Together: 1}},
		Stays:    []psg.Stay{{Workload: web, Alloc: "a2", Reason: "no other node has room"}},
	}}
	told := []string{"a1 is now a9 on n2: gap 0s; 1 job version and 2 write requests for 1 move", "a2 of default/web/g stays: no other node has room",
		"1 moved, 0 given up, 0 not seen to end, 1 left on the node"}
	for name, one := range map[string]struct {
		answers []any
		fails   error
	}{
		"the last answer is busy":    {[]any{begun, ended, psg.ErrBusy}, psg.ErrBusy},
		"another is about to lead":   {[]any{begun, psg.ErrUnavailable, ended, psg.ErrUnavailable}, psg.ErrUnavailable},
		"the node is gone meanwhile": {[]any{begun, ended, psg.ErrUnknown}, nil},
		"something stays":            {[]any{begun, ended}, errNo},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer
			m := mover{c: &command{ctx: t.Context(), stdout: &shown}, at: answering(t, one.answers...), node: "n1", body: rebalanceBody{Empty: true}, look: 10 * time.Millisecond}
			err := m.run(time.Second)
			if err == nil || one.fails != nil && !errors.Is(err, one.fails) {
				t.Errorf("%v, want it to fail, with %v", err, one.fails)
			}
			for _, want := range told {
				if !strings.Contains(shown.String(), want) {
					t.Errorf("lacks %q:\n%s", want, &shown)
				}
			}
		})
	}
}

func TestMover_TellsProgramsTheSame(t *testing.T) {
	stays := rebalanced{On: 1, Rebalanced: psg.Rebalanced{Stays: []psg.Stay{{Alloc: "a2", Reason: "it is protected"}}}}
	var shown bytes.Buffer
	m := mover{c: &command{ctx: t.Context(), stdout: &shown}, out: output{json: true}, at: answering(t, stays), node: "n1", body: rebalanceBody{Empty: true}}
	if err := m.run(0); err != nil {
		t.Error(err)
	}
	var told conclusion
	if err := json.Unmarshal(shown.Bytes(), &told); err != nil || len(told.Stays) != 1 || told.Stays[0].Reason != "it is protected" || told.On != 1 {
		t.Errorf("%v, %+v:\n%s", err, told, &shown)
	}
}
