package incident

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/policies"
)

// TestLeader_EntrustsAndOrdersARealAgent: a real controller on a real ledger tells
// a real agent what it may do, the agent heals by it, and an order of the leader
// comes back as a report. The controller gone, what was held is let go.
func TestLeader_EntrustsAndOrdersARealAgent(t *testing.T) {
	r := newRig(t)
	status := filepath.Join(r.dir, "status")
	port := freePort(t)
	victim := r.start(victimMHz, nil, built.load, "victim", "memory", "127.0.0.1:"+port, filepath.Join(r.dir, "hot"))
	batch := r.start(antagonistMHz, nil, built.load, "antagonist", "memory", filepath.Join(r.dir, "stream"), status)
	s := &scene{antagonist: batch, status: status}
	r.startAgent()
	c, agents, stop := r.leader()
	defer stop()

	api := group("api", psg.Service, 100)
	api.Probe = &psg.Probe{Port: port, Path: "/", Interval: probeEvery, Objective: 25 * time.Millisecond}
	etl := group("etl", psg.Batch, 100)
	facts := []psg.Delta{psg.NodeChanged{Node: psg.Node{
		ID: nodeID, Name: "n1", Datacenter: "dc1", Ready: true,
		Capacity: psg.Resources{psg.CPU: 2 * coreMHz, psg.Memory: 8192, psg.MemoryMax: 8192, psg.Disk: 1000},
	}}}
	for w, on := range map[*psg.Workload]*task{&api: victim, &etl: batch} {
		ask := psg.Ask{ID: psg.RequestID(on.alloc), Workload: w.ID, Alloc: on.alloc, Node: nodeID, At: time.Now()}
		facts = append(facts, psg.WorkloadChanged{Workload: *w}, psg.Asked{Ask: ask},
			psg.Placed{Placement: psg.Placement{Ask: ask, Node: nodeID, State: psg.Running, Request: w.Request, Since: time.Now()}})
	}
	if err := c.Report(t.Context(), facts); err != nil {
		t.Fatal(err)
	}
	r.until(60*time.Second, "the antagonist is ready and the ledger knows it", func() bool {
		_, known := c.Ask(psg.RequestID(batch.alloc))
		return known && s.ready()
	})
	r.until(20*time.Second, "the agent answers", func() bool {
		got, err := agents.Command(t.Context(), psg.Order{Kind: psg.Throttle, Alloc: batch.alloc, Limit: psg.Resources{psg.CPU: 3000}, Deadline: 2 * time.Second})
		return err == nil && got.State == psg.ReportDone
	})
	r.until(20*time.Second, "the order's time is over", func() bool { return r.get(batch, "cpu", "cpu.cfs_quota_us") == "-1" })

	(&bench{rig: r}).begin(s)
	begun := time.Now()
	var healed []psg.Report
	r.until(60*time.Second, "the agent throttles who harms, in what it harms by", func() bool {
		healed = r.reported(func(p psg.Report) bool {
			return p.Unasked && p.Alloc == batch.alloc && p.State == psg.ReportDone && p.At.After(begun)
		})
		return len(healed) > 0 && r.held(batch)
	})
	if !strings.Contains(healed[0].Reason, string(victim.alloc)+" suffers") {
		t.Errorf("reported %+v", healed[0])
	}
	if got := r.get(batch, "memory", "memory.limit_in_bytes"); got != unlimited && got != "104857600" { // a batch job that is not preemptible keeps what it asked for
		t.Errorf("memory limit %s", got)
	}
	if kept := agents.Reports(nodeID); len(kept) == 0 {
		t.Error("the leader has kept no report")
	}
	stop()
	r.until(60*time.Second, "what was held is let go, without a leader", func() bool { return !r.held(batch) })
}

// unlimited is what the kernel shows for no limit of memory.
const unlimited = "9223372036854771712"

// held reports whether a task is held back, in whatever it is.
func (r *rig) held(t *task) bool {
	return r.get(t, "memory", "memory.limit_in_bytes") != unlimited || r.get(t, "cpu", "cpu.cfs_quota_us") != "-1" ||
		r.get(t, "blkio", "blkio.throttle.read_bps_device") != ""
}

func group(job string, kind psg.Type, memory int64) psg.Workload {
	return psg.Workload{
		ID: psg.WorkloadID{Namespace: "default", Job: job, Group: "main"}, Version: 1, Type: kind, Count: 1,
		Priority: 50, Tenant: "default", Kind: string(kind),
		Request: psg.Resources{psg.CPU: 500, psg.Memory: memory, psg.MemoryMax: memory},
	}
}

// leader is a controller that leads, and its hold on agents; stop ends both.
func (r *rig) leader() (*controller.Controller, *controller.Agents, func()) {
	r.Helper()
	if err := r.bus.CreateStreams(r.Context()); err != nil {
		r.Fatal(err)
	}
	rules, err := policies.Load("../../policies/library/noisy_nodes")
	if err != nil {
		r.Fatal(err)
	}
	var agents *controller.Agents
	c, err := controller.New(r.bus.Ledger(), func() controller.Policy { return rules }, nil, controller.Config{
		Name: "test", Log: slog.New(slog.DiscardHandler),
		Duties: func(ctx context.Context) error { return agents.Entrust(ctx) },
	})
	if err != nil {
		r.Fatal(err)
	}
	agents = controller.NewAgents(c, r.bus.PublishOrder)
	ctx, stop := context.WithCancel(context.Background())
	var running errgroup.Group
	running.Go(func() error { return c.Run(ctx) })
	running.Go(func() error { return r.bus.WatchReports(ctx, agents.Reported) })
	return c, agents, func() {
		stop()
		if err := running.Wait(); err != nil && ctx.Err() == nil {
			r.Error(err)
		}
	}
}
