// Command cards is a Nomad device plugin that finds cards no machine has, so
// that the end-to-end tests run on a node with GPUs: Nomad fingerprints them,
// PSG's controller learns of them from Nomad, and no process can use them.
// Nomad starts it with their number as its argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/psgrid/psg/driver/plugin"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
	"github.com/psgrid/psg/e2e/cards/devicepb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("usage: cards NUMBER; Nomad starts it")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 {
		return fmt.Errorf("number of cards: %q is no number", args[0])
	}
	log := hclog.New(&hclog.LoggerOptions{Level: hclog.Warn, JSONFormat: true})
	goplugin.Serve(&goplugin.ServeConfig{
		HandshakeConfig: plugin.Handshake(),
		Plugins:         goplugin.PluginSet{"base": face{register: registerBase}, "device": face{cards: n, register: registerDevice}},
		GRPCServer:      goplugin.DefaultGRPCServer,
		Logger:          log,
	})
	return nil
}

// face is one of the two services of a device plugin.
type face struct {
	goplugin.NetRPCUnsupportedPlugin
	cards    int
	register func(g *grpc.Server, cards int)
}

// GRPCServer registers the service.
func (f face) GRPCServer(_ *goplugin.GRPCBroker, g *grpc.Server) error {
	f.register(g, f.cards)
	return nil
}

// GRPCClient is not for this side.
func (f face) GRPCClient(context.Context, *goplugin.GRPCBroker, *grpc.ClientConn) (any, error) {
	return nil, errors.New("the plugin only serves")
}

func registerBase(g *grpc.Server, _ int) { nomadpb.RegisterBasePluginServer(g, base{}) }

func registerDevice(g *grpc.Server, cards int) {
	devicepb.RegisterDevicePluginServer(g, device{cards: cards})
}

type base struct {
	nomadpb.UnimplementedBasePluginServer
}

// PluginInfo says what the plugin is.
func (base) PluginInfo(context.Context, *nomadpb.PluginInfoRequest) (*nomadpb.PluginInfoResponse, error) {
	return &nomadpb.PluginInfoResponse{
		Type: nomadpb.PluginType_DEVICE, PluginApiVersions: []string{"v0.1.0"}, PluginVersion: "0.1.0", Name: "cards",
	}, nil
}

// ConfigSchema says that there is nothing to configure.
func (base) ConfigSchema(context.Context, *nomadpb.ConfigSchemaRequest) (*nomadpb.ConfigSchemaResponse, error) {
	return &nomadpb.ConfigSchemaResponse{Spec: &nomadpb.Spec{Block: &nomadpb.Spec_Object{Object: &nomadpb.Object{}}}}, nil
}

// SetConfig has nothing to do.
func (base) SetConfig(context.Context, *nomadpb.SetConfigRequest) (*nomadpb.SetConfigResponse, error) {
	return &nomadpb.SetConfigResponse{}, nil
}

type device struct {
	devicepb.UnimplementedDevicePluginServer
	cards int
}

// Fingerprint names the cards once; they never change.
func (d device) Fingerprint(_ *devicepb.FingerprintRequest, stream devicepb.DevicePlugin_FingerprintServer) error {
	group := &devicepb.DeviceGroup{
		Vendor: "nvidia", DeviceType: "gpu", DeviceName: "simulated",
		Attributes: map[string]*nomadpb.Attribute{
			"memory": {Value: &nomadpb.Attribute_IntVal{IntVal: 40_960}, Unit: "MiB"},
		},
	}
	for i := range d.cards {
		group.Devices = append(group.Devices, &devicepb.DetectedDevice{ID: fmt.Sprintf("GPU-sim-%d", i), Healthy: true})
	}
	if err := stream.Send(&devicepb.FingerprintResponse{DeviceGroup: []*devicepb.DeviceGroup{group}}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Reserve hands cards to a task that asked Nomad itself for them.
func (d device) Reserve(_ context.Context, req *devicepb.ReserveRequest) (*devicepb.ReserveResponse, error) {
	return &devicepb.ReserveResponse{ContainerRes: &devicepb.ContainerReservation{
		Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": strings.Join(req.GetDeviceIds(), ",")},
	}}, nil
}

// Stats has none to tell.
func (d device) Stats(_ *devicepb.StatsRequest, stream devicepb.DevicePlugin_StatsServer) error {
	<-stream.Context().Done()
	return nil
}
