package rpc

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// mover answers for one node.
type mover struct{ limit int }

func (m *mover) Rebalance(_ context.Context, node psg.NodeID, limit int) ([]psg.Order, error) {
	m.limit = limit
	if node != "n1" {
		return nil, fmt.Errorf("node %s: %w", node, psg.ErrUnknown)
	}
	return []psg.Order{{Kind: psg.Stop, Epoch: 3, Alloc: "a1", Node: "n2"}}, nil
}

func TestRebalanceNode_EmptiesAndSaysWhatItCannot(t *testing.T) {
	moves := &mover{}
	server := NewServer(nil, nil).Moving(moves)
	answer, err := server.RebalanceNode(t.Context(), &psgv1.RebalanceNodeRequest{Node: "n1", Empty: true, MaxMoves: 5})
	if err != nil || len(answer.GetOrders()) != 1 || answer.GetOrders()[0].GetNode() != "n2" || moves.limit != 5 {
		t.Errorf("%v, %v, limit %d; want the one order to n2 and limit 5", answer, err, moves.limit)
	}
	for want, request := range map[codes.Code]*psgv1.RebalanceNodeRequest{
		codes.NotFound:      {Node: "n9", Empty: true},
		codes.Unimplemented: {Node: "n1"},
	} {
		if _, err := server.RebalanceNode(t.Context(), request); status.Code(err) != want {
			t.Errorf("%v: %v, want %v", request, err, want)
		}
	}
}
