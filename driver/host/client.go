package host

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/psgrid/psg/driver/plugin"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

const apiVersion = "v0.1.0"

// client is one plugin process and the two services it offers.
type client struct {
	process *goplugin.Client
	pid     int
	base    nomadpb.BasePluginClient
	driver  nomadpb.DriverClient
	done    context.Context // ends when the process is given up
	giveUp  context.CancelFunc
}

// launch starts a plugin process and shakes hands with it.
func launch(binary string, log hclog.Logger) (*client, error) {
	cmd := exec.Command(binary)
	process := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		Plugins:          goplugin.PluginSet{"base": connection{}, "driver": connection{}},
		Cmd:              cmd,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           log,
	})
	c := &client{process: process}
	c.done, c.giveUp = context.WithCancel(context.Background())
	if err := c.connect(); err != nil {
		c.kill()
		return nil, fmt.Errorf("launch %s: %w", binary, err)
	}
	c.pid = cmd.Process.Pid
	return c, nil
}

func (c *client) connect() error {
	protocol, err := c.process.Client()
	if err != nil {
		return err
	}
	for _, face := range []string{"base", "driver"} {
		dispensed, err := protocol.Dispense(face)
		if err != nil {
			return err
		}
		conn := dispensed.(*grpc.ClientConn) // connection.GRPCClient gives no other
		if face == "base" {
			c.base = nomadpb.NewBasePluginClient(conn)
		} else {
			c.driver = nomadpb.NewDriverClient(conn)
		}
	}
	return nil
}

// kill ends the plugin process, as Nomad does.
func (c *client) kill() {
	c.giveUp()
	c.process.Kill()
}

// identify asks for what Nomad asks before it uses a plugin.
func (c *client) identify(ctx context.Context) (Info, error) {
	info, err := c.base.PluginInfo(ctx, &nomadpb.PluginInfoRequest{})
	if err != nil {
		return Info{}, fmt.Errorf("plugin info: %w", err)
	}
	if info.GetType() != nomadpb.PluginType_DRIVER {
		return Info{}, fmt.Errorf("plugin %q is no task driver", info.GetName())
	}
	for _, version := range info.GetPluginApiVersions() {
		if version == apiVersion {
			return Info{Name: info.GetName(), Version: info.GetPluginVersion(), PID: c.pid}, nil
		}
	}
	return Info{}, fmt.Errorf("plugin speaks %v, not %s", info.GetPluginApiVersions(), apiVersion)
}

// configure hands the plugin its config.
func (c *client) configure(ctx context.Context, config map[string]any) error {
	schema, err := c.base.ConfigSchema(ctx, &nomadpb.ConfigSchemaRequest{})
	if err != nil {
		return fmt.Errorf("config schema: %w", err)
	}
	encoded, err := encode(schema.GetSpec(), config)
	if err != nil {
		return fmt.Errorf("plugin config: %w", err)
	}
	_, err = c.base.SetConfig(ctx, &nomadpb.SetConfigRequest{MsgpackConfig: encoded, PluginApiVersion: apiVersion})
	if err != nil {
		return fmt.Errorf("set config: %w", err)
	}
	if _, err := c.driver.Init(ctx, &nomadpb.InitRequest{}); err != nil {
		return fmt.Errorf("init: %w", err)
	}
	return nil
}

// connection gives the bare gRPC connection of a face.
type connection struct {
	goplugin.NetRPCUnsupportedPlugin
}

// GRPCServer is not for this side.
func (connection) GRPCServer(*goplugin.GRPCBroker, *grpc.Server) error {
	return errors.New("the host only calls")
}

// GRPCClient returns the connection.
func (connection) GRPCClient(_ context.Context, _ *goplugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return conn, nil
}
