package host_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// controller is a controller's gRPC face with answers from the test: the same
// order for every ask, until another is set.
type controller struct {
	psgv1.UnimplementedPSGServiceServer
	address string
	server  *grpc.Server

	mu       sync.Mutex
	order    psg.Order
	sequence uint64
	changed  chan struct{}
	asked    []psg.Ask
}

func listen(t testing.TB, address string) *controller {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{address: l.Addr().String(), server: grpc.NewServer(), changed: make(chan struct{})}
	psgv1.RegisterPSGServiceServer(c.server, c)
	served := make(chan error, 1)
	go func() { served <- c.server.Serve(l) }()
	t.Cleanup(func() {
		c.server.Stop()
		<-served
	})
	return c
}

func (c *controller) says(order psg.Order) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sequence++
	c.order = order
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *controller) grants(devices ...psg.DeviceShare) {
	c.says(psg.Order{Kind: psg.Grant, Epoch: 1, Node: "node-1", Devices: devices})
}

func (c *controller) refuses(state psg.State, summary string) {
	c.says(psg.Order{Kind: psg.Wait, Epoch: 1, Refusal: &psg.Refusal{State: state, Summary: summary}})
}

func (c *controller) asks() []psg.Ask {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.asked)
}

func (c *controller) PlaceWorkload(ctx context.Context, request *psgv1.PlaceWorkloadRequest) (*psgv1.PlaceWorkloadResponse, error) {
	ask, err := wire.AskFromProto(request.GetAsks()[0])
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	c.mu.Lock()
	c.asked = append(c.asked, ask)
	c.mu.Unlock()
	for {
		c.mu.Lock()
		order, changed := c.order, c.changed
		order.Sequence = c.sequence
		c.mu.Unlock()
		if order.Sequence > request.GetAfter() {
			order.Ask, order.Alloc, order.Workload = ask.ID, ask.Alloc, ask.Workload
			answer, err := wire.OrderToProto(order)
			if err != nil {
				return nil, err
			}
			return &psgv1.PlaceWorkloadResponse{Orders: []*psgv1.Order{answer}, Sequence: order.Sequence}, nil
		}
		select {
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		case <-changed:
		}
	}
}
