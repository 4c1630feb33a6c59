// Package node is the gRPC face of a node's agent, psg.v1 AgentService, and its
// client: another way than the bus for a leader's orders to reach the node.
//
// It is apart from package rpc so that agents do not carry a controller's faces.
// It authenticates and translates; what an order means, and whether its epoch
// leads, is for the Carrier. Called by cmd/psg-agent, and its client by whoever
// gives orders.
package node

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Carrier carries out orders. A repeated order gets the same report.
type Carrier interface {
	CarryOut(order psg.Order) psg.Report
}

// Config says who may give orders: whoever knows Token, or shows a certificate of
// an authority of TLS, or both when both are set.
type Config struct {
	Token string
	TLS   *tls.Config
}

// mutual reports whether clients must show a certificate.
func (c Config) mutual() bool {
	return c.TLS != nil && c.TLS.ClientAuth == tls.RequireAndVerifyClientCert
}

// Validate reports why nobody may be let in like this, at an address.
func (c Config) Validate(at net.Addr) error {
	tcp, ok := at.(*net.TCPAddr)
	switch {
	case c.Token == "" && !c.mutual():
		return errors.New("orders: neither a token nor an authority for client certificates: anybody could give orders")
	case c.TLS == nil && (!ok || !tcp.IP.IsLoopback()):
		return fmt.Errorf("orders: %s is not loopback: the token would cross the network in the clear without TLS", at)
	}
	return nil
}

// The bounds of what clients may have the agent keep: an order is small, and few
// are under way.
const (
	maxMessage     = 1 << 20
	maxHeader      = 16 << 10
	maxStreams     = 16 // of one connection
	maxConnections = 64 // further ones are closed at once
	greetWithin    = 5 * time.Second
	maxIdle        = time.Minute
)

// Serve answers on listener until ctx ends, then lets open calls finish for at
// most a second. It reads no order of whom it does not let in.
func Serve(ctx context.Context, listener net.Listener, carrier Carrier, config Config) error {
	if err := config.Validate(listener.Addr()); err != nil {
		return err
	}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxHeaderListSize(maxHeader), grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(greetWithin), grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: maxIdle}),
		grpc.InTapHandle(config.authenticate),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if config.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(config.TLS)))
	}
	server := grpc.NewServer(options...)
	psgv1.RegisterAgentServiceServer(server, face{carrier: carrier})
	served := make(chan error, 1)
	go func() { served <- server.Serve(newBounded(listener, maxConnections)) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve orders: %w", err)
	case <-ctx.Done():
	}
	force := time.AfterFunc(time.Second, server.Stop)
	defer force.Stop()
	server.GracefulStop()
	<-served
	return nil
}

// authorization is the metadata key of the token, as HTTP has it.
const authorization = "authorization"

// authenticate refuses a call without the token, if there is one, before any of
// its message is read; certificates were checked by TLS.
func (c Config) authenticate(ctx context.Context, call *tap.Info) (context.Context, error) {
	if c.Token == "" {
		return ctx, nil
	}
	for _, shown := range call.Header.Get(authorization) {
		if same(shown, bearer(c.Token)) {
			return ctx, nil
		}
	}
	return nil, status.Error(codes.Unauthenticated, "no valid token")
}

func bearer(token string) string { return "Bearer " + token }

// same compares in a time that says nothing of where two strings differ.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

type face struct {
	psgv1.UnimplementedAgentServiceServer
	carrier Carrier
}

// CarryOut carries out one order.
func (f face) CarryOut(_ context.Context, request *psgv1.CarryOutRequest) (*psgv1.CarryOutResponse, error) {
	order, err := wire.OrderFromProto(request.GetOrder())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	report, err := wire.ReportToProto(f.carrier.CarryOut(order))
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &psgv1.CarryOutResponse{Report: report}, nil
}
