package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// nomadNode is a `nomad agent -dev` with the driver plugin.
type nomadNode struct {
	binary string
	dir    string // its config and data
	client *api.Client
	ports  [3]int // http, rpc, serf
	plugin string
	gates  string // the controller's gRPC face
	log    *slog.Logger
}

func nomadStage(dir, binary string, config devConfig, served *serveConfig, log *slog.Logger) (*stage, error) {
	ports, err := freePorts()
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])})
	if err != nil {
		return nil, err
	}
	served.nomad = client
	served.inspect = func(deltas []psg.Delta) []psg.Delta { return withCards(deltas, config.cards) }
	return &stage{
		demo:  config.demo,
		about: fmt.Sprintf("a real Nomad (%s) on http://127.0.0.1:%d loads the plugin", binary, ports[0]),
		build: func(at *running) cluster {
			return &nomadNode{
				binary: binary, dir: filepath.Join(dir, "nomad"), client: client, ports: ports,
				plugin: config.plugin, gates: at.grpc.String(), log: log,
			}
		},
	}, nil
}

// withCards adds simulated cards to every node that is reported.
func withCards(deltas []psg.Delta, cards int) []psg.Delta {
	deltas = slices.Clone(deltas)
	for i, d := range deltas {
		if changed, ok := d.(psg.NodeChanged); ok {
			changed.Node.Devices = append(slices.Clone(changed.Node.Devices), devCards(cards)...)
			deltas[i] = changed
		}
	}
	return deltas
}

func freePorts() (ports [3]int, err error) {
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// Run runs the agent until ctx ends; a dev agent takes its tasks with it.
func (n *nomadNode) Run(ctx context.Context) error {
	plugins := filepath.Join(n.dir, "plugins")
	if err := os.MkdirAll(plugins, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(n.plugin, filepath.Join(plugins, "nomad-driver-psg")); err != nil {
		return err
	}
	config := filepath.Join(n.dir, "agent.json")
	if err := os.WriteFile(config, n.config(plugins), 0o600); err != nil {
		return err
	}
	var output bytes.Buffer
	agent := exec.CommandContext(ctx, n.binary, "agent", "-dev", "-config", config)
	agent.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_CA_BUNDLE=") || strings.HasPrefix(v, "NOMAD_")
	})
	agent.Stdout, agent.Stderr = &output, &output
	agent.Cancel = func() error { return agent.Process.Signal(syscall.SIGINT) }
	agent.WaitDelay = 20 * time.Second
	agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the terminal is ours to hand on
	err := agent.Run()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("nomad agent ended: %w\n%s", err, tail(output.Bytes(), 4096))
}

func (n *nomadNode) config(plugins string) []byte {
	value := map[string]any{
		"log_level":  "warn",
		"plugin_dir": plugins,
		"bind_addr":  "127.0.0.1",
		"ports":      map[string]int{"http": n.ports[0], "rpc": n.ports[1], "serf": n.ports[2]},
		"plugin": []any{
			map[string]any{"nomad-driver-psg": map[string]any{"config": map[string]any{"controllers": []string{n.gates}}}},
			map[string]any{"raw_exec": map[string]any{"config": map[string]any{"enabled": true}}},
		},
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings, numbers and maps of them
	}
	return data
}

// Submit registers the job once the driver is healthy.
func (n *nomadNode) Submit(ctx context.Context, job []byte) error {
	var request struct{ Job *api.Job }
	if err := json.Unmarshal(job, &request); err != nil {
		return err
	}
	return until(ctx, 30*time.Second, "nomad takes the job", func() (bool, error) {
		_, _, err := n.client.Jobs().Register(request.Job, new(api.WriteOptions).WithContext(ctx))
		var refused api.UnexpectedResponseError
		if errors.As(err, &refused) && refused.StatusCode() < 500 {
			return false, err
		}
		return err == nil, nil
	})
}

// Scale sets the count of a job's first group.
func (n *nomadNode) Scale(ctx context.Context, job string, count int) error {
	found, _, err := n.client.Jobs().Info(job, new(api.QueryOptions).WithContext(ctx))
	if err != nil {
		return err
	}
	found.TaskGroups[0].Count = &count
	_, _, err = n.client.Jobs().Register(found, new(api.WriteOptions).WithContext(ctx))
	return err
}

func tail(data []byte, n int) []byte { return data[max(0, len(data)-n):] }
