package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// maxConns bounds the connections of a Client: those to controllers it was told
// of and those it was referred to.
const maxConns = 64

// maxAnswer bounds one answer, in bytes: that of the most asks in one call, each
// refused at length.
const maxAnswer = 64 << 20

// Client talks to whichever of several controllers leads. It begins with the
// one that answered last; one that does not lead says who does.
type Client struct {
	security  credentials.TransportCredentials
	addresses []string // as given to Dial

	mu     sync.Mutex
	conns  map[string]*grpc.ClientConn // by address
	leader string                      // address that answered last
	token  string                      // shown with each call; none if empty
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
	client := &Client{
		security: security, addresses: slices.Clone(addresses),
		conns: map[string]*grpc.ClientConn{}, leader: addresses[0],
	}
	for _, address := range addresses {
		if _, err := client.connect(address); err != nil {
			client.Close()
			return nil, err
		}
	}
	return client, nil
}

// connect returns the connection to an address.
func (c *Client) connect(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[address]; conn != nil {
		return conn, nil
	}
	if len(c.conns) >= maxConns && !slices.Contains(c.addresses, address) {
		return nil, fmt.Errorf("referred to %q, the %dth address: %w", address, maxConns+1, psg.ErrUnavailable)
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(c.security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		// A controller that is there but stopped is given up after 13 s.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 3 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: 2 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("controller address %q: %w", address, err)
	}
	c.conns[address] = conn
	return conn, nil
}

// Close ends all connections.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
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
	orders, _, err := c.PlaceAll(ctx, []psg.Ask{ask}, after)
	if err != nil {
		return psg.Order{}, err
	}
	return orders[0], nil
}

// PlaceAll submits asks and waits up to 30 s until each has an answer and one of
// them is newer than the record after. It returns an order for each ask and the
// record they are current as of. It may be repeated for ever.
func (c *Client) PlaceAll(ctx context.Context, asks []psg.Ask, after uint64) ([]psg.Order, uint64, error) {
	wanted, err := wire.Each(asks, wire.AskToProto)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", err, psg.ErrInvalid)
	}
	request := &psgv1.PlaceWorkloadRequest{Asks: wanted, Wait: durationpb.New(defaultWait), After: after}
	var response *psgv1.PlaceWorkloadResponse
	err = c.call(ctx, func(ctx context.Context, service psgv1.PSGServiceClient) error {
		response, err = service.PlaceWorkload(ctx, request)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	if answered := len(response.GetOrders()); answered != len(asks) {
		return nil, 0, fmt.Errorf("controller answered %d asks with %d orders", len(asks), answered)
	}
	orders, err := wire.Each(response.GetOrders(), wire.OrderFromProto)
	return orders, response.GetSequence(), err
}

// Reserve takes room, gives it back, or resizes what an allocation holds; see
// psg.v1 ReserveResources. It returns what is held, or why it is not.
func (c *Client) Reserve(ctx context.Context, r psg.Reservation) ([]psg.Placement, []psg.Refusal, error) {
	request, err := wire.ReservationToProto(r)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", err, psg.ErrInvalid)
	}
	var response *psgv1.ReserveResourcesResponse
	err = c.call(ctx, func(ctx context.Context, service psgv1.PSGServiceClient) error {
		response, err = service.ReserveResources(ctx, request)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	held, err := wire.Each(response.GetPlacements(), wire.PlacementFromProto)
	if err != nil {
		return nil, nil, err
	}
	refused, err := wire.Each(response.GetRefusals(), wire.RefusalFromProto)
	return held, refused, err
}

// call tries each controller once: the one that answered last, whom another
// says that it leads, then those that Dial was given.
func (c *Client) call(ctx context.Context, try func(context.Context, psgv1.PSGServiceClient) error) error {
	c.mu.Lock()
	queue := append([]string{c.leader}, c.addresses...)
	c.mu.Unlock()
	ctx = c.show(ctx)
	tried := map[string]bool{}
	var last error
	for len(queue) > 0 {
		address := queue[0]
		queue = queue[1:]
		if tried[address] || len(tried) >= maxConns {
			continue
		}
		tried[address] = true
		conn, err := c.connect(address)
		if err == nil {
			err = fromStatus(try(ctx, psgv1.NewPSGServiceClient(conn)))
		}
		if !errors.Is(err, psg.ErrNotLeader) && !errors.Is(err, psg.ErrUnavailable) {
			c.prefer(address, ctx.Err() == nil) // one that let the time run out may hang
			return err
		}
		var elsewhere *psg.NotLeaderError
		if errors.As(err, &elsewhere) && elsewhere.Leader.GRPC != "" {
			queue = slices.Insert(queue, 0, elsewhere.Leader.GRPC)
		}
		if last == nil || !errors.Is(err, psg.ErrNotLeader) { // a standby's word tells least
			last = err
		}
	}
	return last
}

// prefer has a controller tried first from now on, or no longer.
func (c *Client) prefer(address string, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case first:
		c.leader = address
	case c.leader == address:
		c.leader = ""
	}
}
