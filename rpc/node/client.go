package node

import (
	"context"
	"crypto/tls"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/wire"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// Client gives orders to one node's agent.
type Client struct {
	conn    *grpc.ClientConn
	service psgv1.AgentServiceClient
	token   string
}

// Dial prepares a connection to an agent by host:port; it is made with the first
// order. The caller closes the client.
func Dial(address, token string, config *tls.Config) (*Client, error) {
	security := insecure.NewCredentials()
	if config != nil {
		security = credentials.NewTLS(config)
	}
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(security))
	if err != nil {
		return nil, fmt.Errorf("agent address %q: %w", address, err)
	}
	return &Client{conn: conn, service: psgv1.NewAgentServiceClient(conn), token: token}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// CarryOut has one order carried out and returns how that went. An error says
// that it is not known to have reached the agent: psg.ErrInvalid that it makes no
// sense, psg.ErrUnavailable that it may be repeated.
func (c *Client) CarryOut(ctx context.Context, order psg.Order) (psg.Report, error) {
	out, err := wire.OrderToProto(order)
	if err != nil {
		return psg.Report{}, err
	}
	if c.token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, authorization, bearer(c.token))
	}
	response, err := c.service.CarryOut(ctx, &psgv1.CarryOutRequest{Order: out})
	switch status.Code(err) {
	case codes.OK:
		return wire.ReportFromProto(response.GetReport())
	case codes.InvalidArgument:
		return psg.Report{}, fmt.Errorf("order to %s: %w: %w", order.Node, err, psg.ErrInvalid)
	case codes.Unavailable, codes.DeadlineExceeded:
		return psg.Report{}, fmt.Errorf("order to %s: %w: %w", order.Node, err, psg.ErrUnavailable)
	}
	return psg.Report{}, fmt.Errorf("order to %s: %w", order.Node, err)
}
