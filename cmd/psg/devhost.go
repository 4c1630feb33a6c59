package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/driver/host"
	"github.com/psgrid/psg/shim"
)

// hostNode is this machine as a node without Nomad: PSG's host drives the same
// plugin binary as Nomad's client would.
type hostNode struct {
	config  host.Config
	decider *controller.Controller
	node    psg.Node
	log     *slog.Logger

	loaded chan struct{} // closed once host is set
	host   *host.Host

	mu      sync.Mutex
	ctx     context.Context // of Run
	allocs  map[string][]*hostAlloc
	running sync.WaitGroup
}

// hostAlloc is one allocation of a job.
type hostAlloc struct {
	host.Alloc
	stop context.CancelFunc
}

func hostStage(dir string, config devConfig, log *slog.Logger) (*stage, error) {
	node := psg.Node{
		ID: "dev-node", Version: 1, Name: "dev-node", Datacenter: "dc1", Pool: "default", Ready: true,
		Capacity: psg.Resources{psg.CPU: int64(runtime.NumCPU()) * 2000, psg.Memory: 2048, psg.MemoryMax: 2048, psg.Disk: 10_240},
		Devices:  devCards(config.cards),
	}
	return &stage{
		demo: config.demo,
		about: "without a nomad: PSG's own host drives the plugin as Nomad's client would;" +
			" main tasks run through the plugin's executor",
		build: func(at *running) cluster {
			return &hostNode{
				config: host.Config{
					Binary: config.plugin, Dir: filepath.Join(dir, "allocs"), Node: node.ID, NodeName: node.Name, Log: log,
					Plugin: map[string]any{"controllers": []string{at.grpc.String()}, "state_dir": filepath.Join(dir, "driver")},
				},
				decider: at.controller, node: node, log: log,
				loaded: make(chan struct{}), allocs: map[string][]*hostAlloc{},
			}
		},
	}, nil
}

// Run loads the plugin and reports the node; when ctx ends, every allocation
// and then the plugin does.
func (n *hostNode) Run(ctx context.Context) error {
	if err := os.MkdirAll(n.config.Dir, 0o755); err != nil {
		return err
	}
	loaded, err := host.Start(ctx, n.config)
	if err != nil {
		return err
	}
	n.host, n.ctx = loaded, ctx
	close(n.loaded)
	if err := n.decider.Report(ctx, []psg.Delta{psg.NodeChanged{Node: n.node}}); err != nil {
		return err
	}
	<-ctx.Done()
	n.running.Wait()
	return loaded.Close()
}

// Submit translates the job, reports its workloads and starts their instances.
func (n *hostNode) Submit(ctx context.Context, job []byte) error {
	select {
	case <-n.loaded:
	case <-ctx.Done():
		return ctx.Err()
	}
	translated, err := shim.Translate(job)
	if err != nil {
		return err
	}
	tasks, err := devTasks(job)
	if err != nil {
		return err
	}
	var deltas []psg.Delta
	for _, workload := range translated.Workloads {
		deltas = append(deltas, psg.WorkloadChanged{Workload: workload})
	}
	if err := n.decider.Report(ctx, deltas); err != nil {
		return err
	}
	for _, workload := range translated.Workloads {
		for range workload.Count {
			alloc := tasks[workload.ID.Group]
			alloc.ID, alloc.Workload = psg.AllocID(uuid.NewString()), workload.ID
			n.start(alloc)
		}
	}
	return nil
}

func (n *hostNode) start(alloc host.Alloc) {
	ctx, stop := context.WithCancel(n.ctx)
	n.mu.Lock()
	n.allocs[alloc.Workload.Job] = append(n.allocs[alloc.Workload.Job], &hostAlloc{alloc, stop})
	n.mu.Unlock()
	n.running.Go(func() {
		defer stop()
		if err := n.runAlloc(ctx, alloc); err != nil && ctx.Err() == nil {
			n.log.Error("allocation failed", "alloc", alloc.ID, "error", err)
		}
	})
}

// runAlloc takes an allocation through its life and reports it as Nomad's
// event stream would.
func (n *hostNode) runAlloc(ctx context.Context, alloc host.Alloc) error {
	id := psg.RequestID(alloc.ID)
	report := func(d psg.Delta) error {
		return n.decider.Report(context.WithoutCancel(ctx), []psg.Delta{d})
	}
	started, err := n.host.RunAlloc(ctx, alloc)
	reason := "stopped"
	if err == nil {
		if err = report(psg.Moved{Ask: id, State: psg.Running, At: time.Now()}); err != nil {
			return err
		}
		for _, task := range started {
			exit, waited := n.host.Wait(ctx, task)
			if waited != nil {
				err = waited
				break
			}
			reason = fmt.Sprintf("complete: exit code %d", exit.Code)
		}
		for _, task := range started {
			if destroyed := n.host.Destroy(context.WithoutCancel(ctx), task); destroyed != nil {
				n.log.Warn("task not destroyed", "task", task, "error", destroyed)
			}
		}
	}
	if freed := report(psg.Freed{Ask: id, State: psg.Released, Reason: reason, At: time.Now()}); freed != nil {
		return freed
	}
	return err
}

// Scale stops the newest instances of a job above count.
func (n *hostNode) Scale(_ context.Context, job string, count int) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	allocs := n.allocs[job]
	if count < 0 || count > len(allocs) {
		return fmt.Errorf("job %s has %d instances, not %d", job, len(allocs), count)
	}
	for _, alloc := range allocs[count:] {
		alloc.stop()
	}
	n.allocs[job] = allocs[:count]
	return nil
}
