// Package rpc is PSG's faces to other processes and their clients: gRPC
// psg.v1 for gates and tools, REST with JSON for people and pages.
//
// It translates; it decides nothing. Each side sees its own small interface:
// Placer, Reserver and Reader are what a controller offers. Called by cmd.
package rpc

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// The bounds of one PlaceWorkload call.
const (
	defaultWait = 30 * time.Second
	maxWait     = 60 * time.Second
	maxAsks     = 10_000
)

// The bounds of one connection. A client that shows that it is there but reads no
// answers has them kept: no more than those of so many calls, which wait their turn
// beyond that, and no longer than a connection may live.
const (
	maxStreams = 1024
	maxAge     = 10 * time.Minute // then its client opens another, and open calls finish
)

// Placer submits asks and waits for answers newer than a ledger record; when
// ctx ends first it returns what holds then.
type Placer interface {
	Place(ctx context.Context, asks []psg.Ask, after uint64) ([]psg.Order, uint64, error)
}

// Reserver holds, gives back and resizes room.
type Reserver interface {
	Reserve(ctx context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error)
}

// Server is the gRPC face.
type Server struct {
	psgv1.UnimplementedPSGServiceServer
	placer     Placer
	reserver   Reserver
	rebalancer Rebalancer // nil: moves are not served
	preempter  Preempter  // nil: preemptions are not served
	guard      *Guard     // nil: nobody is asked for a token
	age        time.Duration
}

// NewServer returns the gRPC face of a controller.
func NewServer(placer Placer, reserver Reserver) *Server {
	return &Server{placer: placer, reserver: reserver, age: maxAge}
}

// Serve answers on listener until ctx ends, then lets open calls finish for at
// most a second. TLS is off when config is nil.
func (s *Server) Serve(ctx context.Context, listener net.Listener, config *tls.Config) error {
	options := []grpc.ServerOption{
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, MaxConnectionAge: s.age, MaxConnectionAgeGrace: maxWait + maxWait/2,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if config != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config)))
	}
	if s.guard != nil {
		options = append(options, grpc.UnaryInterceptor(s.guard.check))
	}
	server := grpc.NewServer(options...)
	psgv1.RegisterPSGServiceServer(server, s)
	healthpb.RegisterHealthServer(server, health.NewServer())

	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve gRPC: %w", err)
	case <-ctx.Done():
	}
	force := time.AfterFunc(time.Second, server.Stop)
	defer force.Stop()
	server.GracefulStop()
	<-served
	return nil
}

// PlaceWorkload submits asks and long-polls for their answers.
func (s *Server) PlaceWorkload(ctx context.Context, request *psgv1.PlaceWorkloadRequest) (*psgv1.PlaceWorkloadResponse, error) {
	if n := len(request.GetAsks()); n > maxAsks {
		return nil, status.Errorf(codes.InvalidArgument, "%d asks in one call, at most %d", n, maxAsks)
	}
	asks, err := wire.Each(request.GetAsks(), wire.AskFromProto)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "asks%v", err)
	}
	wait := defaultWait
	if request.GetWait() != nil {
		wait = request.GetWait().AsDuration()
	}
	if wait < 0 || wait > maxWait {
		return nil, status.Errorf(codes.InvalidArgument, "wait %s is outside 0..%s", wait, maxWait)
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	orders, sequence, err := s.placer.Place(ctx, asks, request.GetAfter())
	if err != nil {
		return nil, toStatus(err)
	}
	response := &psgv1.PlaceWorkloadResponse{Sequence: sequence}
	if response.Orders, err = wire.Each(orders, wire.OrderToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return response, nil
}

// ReserveResources holds, gives back or resizes room.
func (s *Server) ReserveResources(ctx context.Context, request *psgv1.ReserveResourcesRequest) (*psgv1.ReserveResourcesResponse, error) {
	reservation := psg.Reservation{
		ID:       psg.RequestID(request.GetRequestId()),
		Workload: wire.WorkloadIDFromProto(request.GetWorkload()),
		Count:    int(request.GetCount()),
		Node:     psg.NodeID(request.GetNode()),
		Hold:     request.GetHold().AsDuration(),
		Alloc:    psg.AllocID(request.GetAlloc()),
		Release:  request.GetRelease(),
	}
	if request.GetRequest() != nil {
		amounts, err := wire.ResourcesFromProto(request.GetRequest())
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		reservation.Request = amounts
	}
	ctx, cancel := context.WithTimeout(ctx, defaultWait)
	defer cancel()
	held, refusals, err := s.reserver.Reserve(ctx, reservation)
	if err != nil {
		return nil, toStatus(err)
	}
	response := &psgv1.ReserveResourcesResponse{}
	if response.Placements, err = wire.Each(held, wire.PlacementToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if response.Refusals, err = wire.Each(refusals, wire.RefusalToProto); err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return response, nil
}
