package rpc

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Preempter makes room for an ask that waits by ending others, at most so many;
// 0 means any number. It returns their stops, or why nobody makes way.
type Preempter interface {
	Preempt(ctx context.Context, ask psg.RequestID, node psg.NodeID, most int) ([]psg.Order, *psg.Refusal, error)
}

// Preempting has the server answer Preempt, before it serves.
func (s *Server) Preempting(p Preempter) *Server {
	s.preempter = p
	return s
}

// Preempt begins to make room for an ask.
func (s *Server) Preempt(ctx context.Context, request *psgv1.PreemptRequest) (*psgv1.PreemptResponse, error) {
	if s.preempter == nil {
		return nil, status.Error(codes.Unimplemented, "this controller does not preempt: stop an allocation of lower priority with `nomad alloc stop` instead")
	}
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	orders, refusal, err := s.preempter.Preempt(ctx, psg.RequestID(request.GetAsk()), psg.NodeID(request.GetNode()), int(request.GetMaxVictims()))
	if err != nil {
		return nil, toStatus(err)
	}
	response := &psgv1.PreemptResponse{}
	for _, order := range orders {
		response.Victims = append(response.Victims, string(order.Ask))
	}
	if response.Orders, err = wire.Each(orders, wire.OrderToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if refusal != nil {
		if response.Refusal, err = wire.RefusalToProto(*refusal); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
	}
	return response, nil
}

// Preempt makes room for an ask that waits; see psg.v1 Preempt. It returns the
// stops that are under way, or why nobody makes way.
func (c *Client) Preempt(ctx context.Context, ask psg.RequestID, node psg.NodeID, most int) ([]psg.Order, *psg.Refusal, error) {
	request := &psgv1.PreemptRequest{Ask: string(ask), Node: string(node), MaxVictims: uint32(max(most, 0))}
	var response *psgv1.PreemptResponse
	err := c.call(ctx, func(ctx context.Context, service psgv1.PSGServiceClient) (err error) {
		response, err = service.Preempt(ctx, request)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	orders, err := wire.Each(response.GetOrders(), wire.OrderFromProto)
	if err != nil || response.GetRefusal() == nil {
		return orders, nil, err
	}
	refusal, err := wire.RefusalFromProto(response.GetRefusal())
	return orders, &refusal, err
}
