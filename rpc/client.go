package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Client talks to whichever of several controllers leads.
type Client struct {
	conns   []*grpc.ClientConn
	current atomic.Uint64 // the one that answered last, modulo their number
}

// Dial prepares connections to controllers by host:port; each is made when it
// is first needed. TLS is off when config is nil.
func Dial(addresses []string, config *tls.Config) (*Client, error) {
	if len(addresses) == 0 {
		return nil, fmt.Errorf("no controller address: %w", psg.ErrInvalid)
	}
	security := insecure.NewCredentials()
	if config != nil {
		security = credentials.NewTLS(config)
	}
	client := &Client{}
	for _, address := range addresses {
		conn, err := grpc.NewClient(address,
			grpc.WithTransportCredentials(security),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: 2 * time.Second,
			}))
		if err != nil {
			client.Close()
			return nil, fmt.Errorf("controller address %q: %w", address, err)
		}
		client.conns = append(client.conns, conn)
	}
	return client, nil
}

// Close ends all connections.
func (c *Client) Close() error {
	var errs []error
	for _, conn := range c.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Place submits one ask and waits up to 30 s for an answer newer than the
// record after; see psg.v1 PlaceWorkload. A controller that does not lead, or
// does not answer, is passed over for the next.
func (c *Client) Place(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error) {
	wanted, err := wire.AskToProto(ask)
	if err != nil {
		return psg.Order{}, fmt.Errorf("%w: %w", err, psg.ErrInvalid)
	}
	request := &psgv1.PlaceWorkloadRequest{
		Asks: []*psgv1.Ask{wanted}, Wait: durationpb.New(defaultWait), After: after,
	}
	var response *psgv1.PlaceWorkloadResponse
	err = c.call(ctx, func(ctx context.Context, service psgv1.PSGServiceClient) error {
		response, err = service.PlaceWorkload(ctx, request)
		return err
	})
	if err != nil {
		return psg.Order{}, err
	}
	if len(response.GetOrders()) != 1 {
		return psg.Order{}, fmt.Errorf("controller answered one ask with %d orders", len(response.GetOrders()))
	}
	return wire.OrderFromProto(response.GetOrders()[0])
}

// call tries each controller once, beginning with the one that answered last.
func (c *Client) call(ctx context.Context, try func(context.Context, psgv1.PSGServiceClient) error) error {
	first := c.current.Load()
	var err error
	for i := range uint64(len(c.conns)) {
		conn := c.conns[(first+i)%uint64(len(c.conns))]
		err = fromStatus(try(ctx, psgv1.NewPSGServiceClient(conn)))
		if !errors.Is(err, psg.ErrNotLeader) && !errors.Is(err, psg.ErrUnavailable) {
			c.current.Store(first + i)
			return err
		}
	}
	return err
}
