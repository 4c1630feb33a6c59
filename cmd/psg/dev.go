package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies/library"
)

// devConfig is what psg dev is told.
type devConfig struct {
	plugin string
	bundle string
	nomad  string
	cards  int
	demo   bool
	grpc   string
	http   string
	level  string
}

func devCommand() *command {
	var config devConfig
	return &command{
		name: "dev", args: "[-demo] [options]",
		synopsis: "Run PSG and a one-node cluster on loopback, with the example jobs",
		help: `
Starts a controller with an embedded bus in a temporary directory, and one node:
a real 'nomad agent -dev' if nomad is on PATH, else PSG's own host, which loads
the same plugin and drives it as Nomad's client does. Submits the example jobs,
tells what becomes of each, and stays until it is interrupted; -demo ends by
itself. Everything is gone afterwards.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&config.plugin, "plugin", "", "the driver plugin's `file`; default is nomad-driver-psg beside psg")
			flags.StringVar(&config.bundle, "bundle", "", "policy bundle `directory`; default is the library's gpu_colocation")
			flags.StringVar(&config.nomad, "nomad", "auto", "nomad `file`; \"auto\" looks on PATH, \"none\" does without")
			flags.IntVar(&config.cards, "cards", 4, "`number` of simulated GPUs on the node")
			flags.BoolVar(&config.demo, "demo", false, "end once the examples stand as they should, or fail")
			flags.StringVar(&config.grpc, "grpc", "127.0.0.1:4680", "`address` of the gRPC face; -demo takes any free port")
			flags.StringVar(&config.http, "http", "127.0.0.1:4681", "`address` of the REST face; -demo takes any free port")
			flags.StringVar(&config.level, "log-level", "error", "`level` of what the parts log")
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			if config.cards < 0 || config.cards > 64 {
				return usagef("-cards %d is outside 0..64", config.cards)
			}
			config.plugin = cmp.Or(config.plugin, besideMe("nomad-driver-psg"))
			if config.demo {
				config.grpc, config.http = "127.0.0.1:0", "127.0.0.1:0"
			}
			return dev(c.ctx, config, c.stdout, c.stderr)
		},
	}
}

// besideMe is the path of a program in this program's directory.
func besideMe(name string) string {
	self, err := os.Executable()
	if err != nil {
		return name
	}
	return filepath.Join(filepath.Dir(self), name)
}

// cluster is a node that runs jobs under a controller's gates.
type cluster interface {
	// Run keeps the node up until ctx ends, and then leaves nothing running.
	Run(ctx context.Context) error
	// Submit registers a job, as Nomad's JSON.
	Submit(ctx context.Context, job []byte) error
	// Scale lowers the number of a job's instances.
	Scale(ctx context.Context, job string, count int) error
}

// dev builds everything, tells the story of the examples, and tears it down.
func dev(ctx context.Context, config devConfig, stdout, stderr io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "psg-dev-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := newLogger(stderr, config.level, false)
	if err != nil {
		return usageError{err}
	}
	if err := os.CopyFS(filepath.Join(dir, "policies"), library.Files); err != nil {
		return err
	}
	if _, err := os.Stat(config.plugin); err != nil {
		return fmt.Errorf("driver plugin: %w (make build puts it beside psg; -plugin names another)", err)
	}
	if config.plugin, err = filepath.Abs(config.plugin); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	started := make(chan *running, 1)
	served := serveConfig{
		name: "dev", dataDir: filepath.Join(dir, "bus"),
		bundle: cmp.Or(config.bundle, filepath.Join(dir, "policies", "gpu_colocation")),
		grpc:   config.grpc, http: config.http, log: log,
		ready: func(r *running) { started <- r },
	}
	stage, err := newStage(dir, config, &served, log)
	if err != nil {
		return err
	}
	group.Go(func() error { return serve(ctx, served, nil) })
	group.Go(func() error {
		defer stop()
		select {
		case <-ctx.Done():
			return nil
		case at := <-started:
			return stage.play(ctx, at, stdout)
		}
	})
	return group.Wait()
}

// stage is where the examples run.
type stage struct {
	demo  bool
	about string
	build func(at *running) cluster
}

// newStage looks for a nomad and prepares for it, or for going without.
func newStage(dir string, config devConfig, served *serveConfig, log *slog.Logger) (*stage, error) {
	nomad := config.nomad
	switch nomad {
	case "none":
		nomad = ""
	case "auto":
		nomad, _ = exec.LookPath("nomad")
	default:
		if _, err := os.Stat(nomad); err != nil {
			return nil, fmt.Errorf("-nomad: %w", err)
		}
	}
	if nomad == "" {
		return hostStage(dir, config, log)
	}
	return nomadStage(dir, nomad, config, served, log)
}

// play runs the node for as long as the story is told.
func (s *stage) play(ctx context.Context, at *running, stdout io.Writer) error {
	fmt.Fprintf(stdout, "==> controller leads: gRPC %s, REST http://%s\n==> %s\n", at.grpc, at.http, s.about)
	ctx, stop := context.WithCancel(ctx)
	group, ctx := errgroup.WithContext(ctx)
	node := s.build(at)
	group.Go(func() error { return node.Run(ctx) })
	group.Go(func() error {
		defer stop()
		told := tell(ctx, at.controller, node, stdout)
		if told != nil || s.demo {
			return told
		}
		fmt.Fprintf(stdout, "==> running until interrupted; try: psg job explain training -address http://%s\n", at.http)
		<-ctx.Done()
		return nil
	})
	return ended(ctx, group.Wait())
}

// devCards are simulated GPUs: PSG accounts them as it does real ones, and no
// process can use them.
func devCards(n int) []psg.Device {
	cards := make([]psg.Device, n)
	for i := range cards {
		cards[i] = psg.Device{
			ID: psg.DeviceID(fmt.Sprintf("GPU-sim-%d", i)), Vendor: "nvidia", Type: "gpu", Model: "simulated",
			MemoryMB: 40_960, NUMA: -1, Link: fmt.Sprintf("island-%d", i/4), Healthy: true,
		}
	}
	return cards
}

// until polls until done, or fails with what was waited for.
func until(ctx context.Context, limit time.Duration, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s", what, limit)
		case <-poll.C:
		}
	}
}
