package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Rebalancer begins to move what runs on a node to others.
type Rebalancer interface {
	Rebalance(ctx context.Context, r psg.Rebalance) (psg.Rebalanced, error)
}

// Moving has the server answer RebalanceNode, before it serves.
func (s *Server) Moving(r Rebalancer) *Server {
	s.rebalancer = r
	return s
}

// RebalanceNode begins to empty a node, or to improve what it holds, and says
// what became of earlier moves off it.
func (s *Server) RebalanceNode(ctx context.Context, request *psgv1.RebalanceNodeRequest) (*psgv1.RebalanceNodeResponse, error) {
	if s.rebalancer == nil {
		return nil, status.Error(codes.Unimplemented, "this controller does not move running workloads: drain the node with `nomad node drain` instead")
	}
	done, err := s.rebalancer.Rebalance(ctx, psg.Rebalance{
		Node: psg.NodeID(request.GetNode()), Empty: request.GetEmpty(), Max: int(request.GetMaxMoves()),
	})
	if err != nil {
		return nil, toStatus(err)
	}
	response := &psgv1.RebalanceNodeResponse{}
	if response.Orders, err = wire.Each(done.Orders, wire.OrderToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if response.Finished, err = wire.Each(done.Finished, wire.MoveToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if response.Stays, err = wire.Each(done.Stays, wire.StayToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return response, nil
}
