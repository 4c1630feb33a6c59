package plugin

import (
	"context"
	"errors"
	"log/slog"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// Handshake is what Nomad and its plugins know one another by.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  2,
		MagicCookieKey:   "NOMAD_PLUGIN_MAGIC_COOKIE",
		MagicCookieValue: "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255",
	}
}

// Serve answers Nomad until it lets the process go, then closes the driver. It
// must be the process's only use of standard output. launcher is the command
// that becomes an executor when a directory is added to it.
func Serve(version string, launcher []string, dial Dial, out hclog.Logger) error {
	d := driver.New(launcher, slog.New(&logHandler{out: out}))
	s := &server{driver: d, dial: dial, version: version}
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: Handshake(),
		Plugins:         goplugin.PluginSet{"base": &face{server: s}, "driver": &face{server: s, driver: true}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          out,
	})
	return d.Close()
}

// face is one of the two services, which share one server: go-plugin registers
// each set by itself, Nomad calls both.
type face struct {
	goplugin.NetRPCUnsupportedPlugin
	server *server
	driver bool
}

// GRPCServer registers the face's service.
func (f *face) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	if f.driver {
		nomadpb.RegisterDriverServer(g, f.server)
	} else {
		nomadpb.RegisterBasePluginServer(g, f.server)
	}
	return nil
}

// GRPCClient is not for this side.
func (f *face) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin only serves")
}
