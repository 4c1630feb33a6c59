package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Rebalancer begins to move what runs on a node to others, at most limit
// allocations; 0 means a few.
type Rebalancer interface {
	Rebalance(ctx context.Context, node psg.NodeID, limit int) ([]psg.Order, error)
}

// Moving has the server answer RebalanceNode, before it serves.
func (s *Server) Moving(r Rebalancer) *Server {
	s.rebalancer = r
	return s
}

// RebalanceNode begins to empty a node. Moves that only improve a placement are
// not served by this version.
func (s *Server) RebalanceNode(ctx context.Context, request *psgv1.RebalanceNodeRequest) (*psgv1.RebalanceNodeResponse, error) {
	switch {
	case s.rebalancer == nil:
		return nil, status.Error(codes.Unimplemented, "this controller does not move running workloads: drain the node with `nomad node drain` instead")
	case !request.GetEmpty():
		return nil, status.Error(codes.Unimplemented, "this version moves workloads only to empty a node: set empty")
	}
	orders, err := s.rebalancer.Rebalance(ctx, psg.NodeID(request.GetNode()), int(request.GetMaxMoves()))
	if err != nil {
		return nil, toStatus(err)
	}
	response := &psgv1.RebalanceNodeResponse{}
	if response.Orders, err = wire.Each(orders, wire.OrderToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return response, nil
}
