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

// evictor knows of one ask that others make way for, and one that nobody does.
type evictor struct {
	node psg.NodeID
	most int
}

func (e *evictor) Preempt(_ context.Context, ask psg.RequestID, node psg.NodeID, most int) ([]psg.Order, *psg.Refusal, error) {
	e.node, e.most = node, most
	switch ask {
	case "u1":
		return []psg.Order{{Kind: psg.Stop, Epoch: 3, Ask: "l1", Alloc: "l1", Node: "n1"}}, nil, nil
	case "u2":
		return nil, &psg.Refusal{Ask: ask, State: psg.Queued, Summary: "preemption: all are protected"}, nil
	}
	return nil, nil, fmt.Errorf("ask %q: %w", ask, psg.ErrUnknown)
}

func TestPreempt_NamesVictimsOrSaysWhyNot(t *testing.T) {
	evicts := &evictor{}
	server := NewServer(nil, nil).Preempting(evicts)
	answer, err := server.Preempt(t.Context(), &psgv1.PreemptRequest{Ask: "u1", Node: "n1", MaxVictims: 3})
	if err != nil || len(answer.GetVictims()) != 1 || answer.GetVictims()[0] != "l1" || answer.GetOrders()[0].GetAlloc() != "l1" || answer.GetRefusal() != nil {
		t.Errorf("%v, %v; want l1 to end", answer, err)
	}
	if evicts.node != "n1" || evicts.most != 3 {
		t.Errorf("asked for at most %d on %q", evicts.most, evicts.node)
	}
	answer, err = server.Preempt(t.Context(), &psgv1.PreemptRequest{Ask: "u2"})
	if err != nil || len(answer.GetVictims()) != 0 || answer.GetRefusal().GetSummary() != "preemption: all are protected" {
		t.Errorf("%v, %v; want a refusal", answer, err)
	}
	if _, err := server.Preempt(t.Context(), &psgv1.PreemptRequest{Ask: "u3"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown ask: %v", err)
	}
}
