package rpc

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// mover answers for one node.
type mover struct{ asked psg.Rebalance }

func (m *mover) Rebalance(_ context.Context, r psg.Rebalance) (psg.Rebalanced, error) {
	m.asked = r
	if r.Node != "n1" {
		return psg.Rebalanced{}, fmt.Errorf("node %s: %w", r.Node, psg.ErrUnknown)
	}
	return psg.Rebalanced{
		Orders:   []psg.Order{{Kind: psg.Stop, Epoch: 3, Alloc: "a1", Node: "n2"}},
		Finished: []psg.Move{{Alloc: "a0", Successor: "a9", From: "n1", Gap: time.Second, Versions: 2, At: time.Unix(7, 0)}},
		Stays:    []psg.Stay{{Workload: psg.WorkloadID{Namespace: "ml", Job: "web", Group: "g"}, Alloc: "a2", Reason: "no room"}},
	}, nil
}

func TestRebalanceNode_SaysWhatIsBegunAndWhatHasEnded(t *testing.T) {
	for _, empty := range []bool{true, false} {
		moves := &mover{}
		server := NewServer(nil, nil).Moving(moves)
		answer, err := server.RebalanceNode(t.Context(), &psgv1.RebalanceNodeRequest{Node: "n1", Empty: empty, MaxMoves: 5})
		if err != nil || len(answer.GetOrders()) != 1 || answer.GetOrders()[0].GetNode() != "n2" {
			t.Errorf("%v, %v; want the one order to n2", answer, err)
		}
		if want := (psg.Rebalance{Node: "n1", Empty: empty, Max: 5}); moves.asked != want {
			t.Errorf("asked for %+v, want %+v", moves.asked, want)
		}
		ended := answer.GetFinished()
		if len(ended) != 1 || ended[0].GetSuccessor() != "a9" || ended[0].GetGap().AsDuration() != time.Second || ended[0].GetVersions() != 2 {
			t.Errorf("finished %v", ended)
		}
		if left := answer.GetStays(); len(left) != 1 || left[0].GetWorkload().GetJob() != "web" || left[0].GetAlloc() != "a2" || left[0].GetReason() != "no room" {
			t.Errorf("stays %v", left)
		}
	}
	if _, err := NewServer(nil, nil).Moving(&mover{}).RebalanceNode(t.Context(), &psgv1.RebalanceNodeRequest{Node: "n9"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown node: %v", err)
	}
}
