package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/nomad/api"
)

// Nomad is a `nomad agent -dev` with PSG's driver and simulated cards.
type Nomad struct {
	Binary   string
	Plugins  Binaries
	Dir      string         // everything it writes; short, since sockets are below it
	Cards    int            // simulated GPUs
	Settings map[string]any // the driver plugin's config
	HTTP     string         // host:port

	Client   *api.Client // nil until Start
	*Process             // nil until Start
}

// driverFile is what Nomad calls the driver plugin.
const driverFile = "nomad-driver-psg"

// Start runs the agent and returns when its node is ready, with the driver and
// the cards.
func (n *Nomad) Start(ctx context.Context) error {
	config, err := n.prepare()
	if err != nil {
		return err
	}
	if n.Client, err = api.NewClient(&api.Config{Address: "http://" + n.HTTP}); err != nil {
		return err
	}
	n.Process, err = start(n.Binary, []string{"agent", "-dev", "-config", config},
		environ("TMPDIR="+filepath.Join(n.Dir, "tmp")), filepath.Join(n.Dir, "nomad.log"), syscall.SIGINT)
	if err != nil {
		return err
	}
	return n.until(ctx, 30*time.Second, "the node is ready", n.ready)
}

// End stops the agent, which takes its tasks with it.
func (n *Nomad) End() error { return n.Stop(syscall.SIGINT, 20*time.Second) }

// Run runs a nomad command and returns all it printed.
func (n *Nomad) Run(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, n.Binary, args...)
	command.Env = environ("NOMAD_ADDR=http://" + n.HTTP)
	output, err := command.CombinedOutput()
	return string(output), err
}

// KillDriver kills the driver plugin as a crash would, and returns when Nomad
// has started another.
func (n *Nomad) KillDriver(ctx context.Context) error {
	running := n.Children(driverFile)
	if len(running) != 1 {
		return fmt.Errorf("%d driver plugins run: %v", len(running), running)
	}
	if err := syscall.Kill(running[0], syscall.SIGKILL); err != nil {
		return err
	}
	return Until(ctx, 10*time.Second, "nomad starts the plugin again", func() (bool, error) {
		now := n.Children(driverFile)
		return len(now) == 1 && now[0] != running[0], nil
	})
}

// Driver is the process of the driver plugin.
func (n *Nomad) Driver() (int, error) {
	running := n.Children(driverFile)
	if len(running) != 1 {
		return 0, fmt.Errorf("%d driver plugins run", len(running))
	}
	return running[0], nil
}

// prepare writes the agent's config and links the plugins where it looks.
func (n *Nomad) prepare() (config string, err error) {
	plugins := filepath.Join(n.Dir, "plugins")
	err = errors.Join(
		os.MkdirAll(plugins, 0o755),
		os.MkdirAll(filepath.Join(n.Dir, "tmp"), 0o755),
		os.Symlink(n.Plugins.Driver, filepath.Join(plugins, driverFile)),
		os.Symlink(n.Plugins.Cards, filepath.Join(plugins, "cards")),
	)
	if err != nil {
		return "", err
	}
	internal, err := FreeAddresses(2)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{
		"log_level": "warn", "plugin_dir": plugins, "bind_addr": "127.0.0.1",
		"ports": map[string]int{"http": port(n.HTTP), "rpc": port(internal[0]), "serf": port(internal[1])},
		"plugin": []any{
			map[string]any{driverFile: map[string]any{"config": n.Settings}},
			map[string]any{"cards": map[string]any{"args": []string{strconv.Itoa(n.Cards)}}},
			map[string]any{"raw_exec": map[string]any{"config": map[string]any{"enabled": true}}},
		},
	})
	if err != nil {
		return "", err
	}
	config = filepath.Join(n.Dir, "agent.json")
	return config, os.WriteFile(config, data, 0o600)
}

func port(address string) int {
	_, text, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(text)
	return number
}

func (n *Nomad) ready() (bool, error) {
	nodes, _, err := n.Client.Nodes().List(&api.QueryOptions{Params: map[string]string{"resources": "true"}})
	if err != nil || len(nodes) != 1 || nodes[0].Status != api.NodeStatusReady {
		return false, err
	}
	driver := nodes[0].Drivers["psg"]
	if driver == nil || !driver.Healthy {
		return false, errors.New("the driver psg is not healthy")
	}
	cards := 0
	if resources := nodes[0].NodeResources; resources != nil {
		for _, group := range resources.Devices {
			cards += len(group.Instances)
		}
	}
	return cards == n.Cards, fmt.Errorf("%d of %d cards", cards, n.Cards)
}

// environ is this process's environment with more variables, without what
// would lead a Nomad astray.
func environ(more ...string) []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "AWS_CA_BUNDLE=") || strings.HasPrefix(v, "NOMAD_") || strings.HasPrefix(v, "PSG_")
	}), more...)
}
