package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
	"github.com/psgrid/psg/hclspec"
)

const (
	// Name is what jobs call the driver.
	Name = "psg"

	apiVersion        = "v0.1.0"
	fingerprintPeriod = 30 * time.Second
	healthPeriod      = time.Second // how often the health is looked at for a change
	handleVersion     = 1
)

// Dial makes the client of the controllers that a config names.
type Dial func(hclspec.Plugin) (driver.Placer, error)

// server is both of Nomad's faces, base and driver, over one driver.
type server struct {
	nomadpb.UnimplementedBasePluginServer
	nomadpb.UnimplementedDriverServer

	driver  *driver.Driver
	dial    Dial
	version string

	configuring sync.Mutex // one SetConfig at a time
}

// PluginInfo says what the plugin is.
func (s *server) PluginInfo(context.Context, *nomadpb.PluginInfoRequest) (*nomadpb.PluginInfoResponse, error) {
	return &nomadpb.PluginInfoResponse{
		Type:              nomadpb.PluginType_DRIVER,
		PluginApiVersions: []string{apiVersion},
		PluginVersion:     s.version,
		Name:              Name,
	}, nil
}

// ConfigSchema is the schema of the plugin's config.
func (s *server) ConfigSchema(context.Context, *nomadpb.ConfigSchemaRequest) (*nomadpb.ConfigSchemaResponse, error) {
	return &nomadpb.ConfigSchemaResponse{Spec: spec(hclspec.PluginFields())}, nil
}

// SetConfig takes the plugin's config. The same one again changes nothing.
func (s *server) SetConfig(_ context.Context, req *nomadpb.SetConfigRequest) (*nomadpb.SetConfigResponse, error) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	raw, err := decodeConfig(req.GetMsgpackConfig())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	parsed, err := hclspec.DecodePlugin(raw)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "plugin config: %v", err)
	}
	config := driver.Config{Plugin: parsed, CoreMHz: coreMHz(req.GetNomadConfig())}
	if s.driver.Configured(config) {
		return &nomadpb.SetConfigResponse{}, nil
	}
	placer, err := s.dial(parsed)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "plugin config: %v", err)
	}
	if err := s.driver.Configure(config, placer); err != nil {
		if c, ok := placer.(io.Closer); ok {
			err = errors.Join(err, c.Close())
		}
		return nil, failure(fmt.Errorf("configure: %w", err))
	}
	return &nomadpb.SetConfigResponse{}, nil
}

// Init has nothing to do: SetConfig has done it.
func (s *server) Init(context.Context, *nomadpb.InitRequest) (*nomadpb.InitResponse, error) {
	return &nomadpb.InitResponse{}, nil
}

// Shutdown lets the driver end: gates and commands are left to the next one.
func (s *server) Shutdown(context.Context, *nomadpb.ShutdownRequest) (*nomadpb.ShutdownResponse, error) {
	if err := s.driver.Close(); err != nil {
		return nil, err
	}
	return &nomadpb.ShutdownResponse{}, nil
}

// TaskConfigSchema is the schema of a task's config.
func (s *server) TaskConfigSchema(context.Context, *nomadpb.TaskConfigSchemaRequest) (*nomadpb.TaskConfigSchemaResponse, error) {
	return &nomadpb.TaskConfigSchemaResponse{Spec: spec(hclspec.StanzaFields())}, nil
}

// Capabilities says what the driver can do.
func (s *server) Capabilities(context.Context, *nomadpb.CapabilitiesRequest) (*nomadpb.CapabilitiesResponse, error) {
	return &nomadpb.CapabilitiesResponse{Capabilities: &nomadpb.DriverCapabilities{
		SendSignals: true,
		Exec:        true,
		FsIsolation: nomadpb.DriverCapabilities_NONE,
		NetworkIsolationModes: []nomadpb.NetworkIsolationSpec_NetworkIsolationMode{
			nomadpb.NetworkIsolationSpec_HOST, nomadpb.NetworkIsolationSpec_GROUP,
		},
		MountConfigs: nomadpb.DriverCapabilities_NO_MOUNTS,
	}}, nil
}

// Fingerprint reports the driver as healthy, since gates can always wait, and
// describes controllers that do not answer.
func (s *server) Fingerprint(_ *nomadpb.FingerprintRequest, stream nomadpb.Driver_FingerprintServer) error {
	ticker := time.NewTicker(healthPeriod)
	defer ticker.Stop()
	last, sent := "", time.Time{}
	for {
		if health := s.driver.Health(); health != last || time.Since(sent) >= fingerprintPeriod {
			if err := stream.Send(s.fingerprint(health)); err != nil {
				return err
			}
			last, sent = health, time.Now()
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *server) fingerprint(health string) *nomadpb.FingerprintResponse {
	return &nomadpb.FingerprintResponse{
		Attributes: map[string]*nomadpb.Attribute{
			"driver.psg":         {Value: &nomadpb.Attribute_BoolVal{BoolVal: true}},
			"driver.psg.version": {Value: &nomadpb.Attribute_StringVal{StringVal: s.version}},
		},
		Health:            nomadpb.FingerprintResponse_HEALTHY,
		HealthDescription: health,
	}
}

// failure turns an error of the driver into one of gRPC.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrTaskNotFound):
		return status.Error(codes.NotFound, err.Error())
	case errors.Is(err, driver.ErrNoProcess), errors.Is(err, driver.ErrNotConfigured):
		return status.Error(codes.FailedPrecondition, err.Error())
	case errors.Is(err, driver.ErrClosed):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return status.FromContextError(err).Err()
	}
	return status.Error(codes.Unknown, err.Error())
}

// signalNamed reads a signal as jobs write it; an empty name is fallback.
func signalNamed(name string, fallback syscall.Signal) (syscall.Signal, error) {
	if name == "" {
		return fallback, nil
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, status.Errorf(codes.InvalidArgument, "unknown signal %q", name)
}
