package nomad_test

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestPreempt_MakesRoomForAHeldJob fills the only node of class a with a job that
// may make way, and has it do so for an urgent one that can run nowhere else.
func TestPreempt_MakesRoomForAHeldJob(t *testing.T) {
	g := use(t)
	low := gated("low", 1, map[string]any{"preemptible": true})
	low.Priority = new(20)
	low.TaskGroups[0].Tasks[0].Resources.CPU = new(6000)
	low.Affinities = []*api.Affinity{api.NewAffinity("${node.class}", "=", "a", 100)}
	a := psg.NodeID(g.nodes[0])
	g.register(low)
	g.until(30*time.Second, "low runs on class a", func() bool { return g.runningOn("low")[a] == 1 })

	high := gated("high", 1, map[string]any{"kind": "service"})
	high.Priority = new(80)
	high.TaskGroups[0].Tasks[0].Resources.CPU = new(6000)
	high.Constraints = append(high.Constraints, api.NewConstraint("${node.class}", "=", "a"), api.NewConstraint("${meta.psg_hold}", "=", "never"))
	g.register(high)
	g.until(20*time.Second, "high is queued", func() bool { return g.asks("high", psg.Queued) == 1 })
	victim := g.ids("low")[0]
	if out, err := g.psg("job", "explain", "high"); err != nil || !strings.Contains(out, "stop "+victim) || !strings.Contains(out, "which may be preempted for it") {
		t.Errorf("explain does not name who would have to end, %s: %v\n%s", victim, err, out)
	}

	start := time.Now()
	out, err := g.psg("job", "preempt", "high")
	if err != nil || !strings.Contains(out, "stops "+victim) {
		t.Fatalf("%v\n%s", err, out)
	}
	g.until(40*time.Second, "high runs", func() bool { return g.runningOn("high")[a] == 1 })
	t.Logf("high runs %s after it was asked for:\n%s", time.Since(start).Round(time.Millisecond), out)
	g.until(40*time.Second, "low runs elsewhere", func() bool { on := g.runningOn("low"); return g.total(on) == 1 && on[a] == 0 })

	var ended psg.AskStatus
	g.get("/v1/ask/"+victim, &ended)
	if ended.State != psg.Released || !strings.HasPrefix(ended.Reason, "preempted for ") {
		t.Errorf("%s is %s: %q", victim, ended.State, ended.Reason)
	}
	if again, err := g.psg("job", "preempt", "high"); err != nil || !strings.Contains(again, "no instance is queued") {
		t.Errorf("asked again: %v\n%s", err, again)
	}
}

// TestPreempt_MakesRoomForAHeldGang fills both nodes of class b with a job each, and
// has both make way for a gang of two that can run nowhere else: neither member
// starts before there is room for the other.
func TestPreempt_MakesRoomForAHeldGang(t *testing.T) {
	g := use(t)
	var victims []string
	for i, id := range []string{"low1", "low2"} {
		low := gated(id, 1, map[string]any{"preemptible": true})
		low.Priority = new(20)
		low.TaskGroups[0].Tasks[0].Resources.CPU = new(3500) // both fit the node of class a
		low.Affinities = []*api.Affinity{api.NewAffinity("${node.unique.id}", "=", g.nodes[1+i], 100)}
		g.register(low)
		g.until(60*time.Second, id+" runs on class b", func() bool { return g.runningOn(id)[psg.NodeID(g.nodes[1+i])] == 1 })
		victims = append(victims, g.ids(id)...)
	}

	high := gated("high", 2, map[string]any{"gang": true, "labels": map[string]string{"class": "b"}})
	high.Priority = new(80)
	high.TaskGroups[0].Tasks[0].Resources.CPU = new(5000)
	high.Constraints = append(high.Constraints, api.NewConstraint("${node.class}", "=", "b"), api.NewConstraint("${meta.psg_hold}", "=", "never"))
	g.register(high)
	g.until(60*time.Second, "the gang is queued", func() bool { return g.asks("high", psg.Queued) == 2 })
	if out, err := g.psg("job", "preempt", "-max-victims", "1", "high"); err == nil || !strings.Contains(out, "it takes 2 victims for all 2 of gang") {
		t.Errorf("one victim may do: %v\n%s", err, out)
	}
	out, err := g.psg("job", "preempt", "high")
	if err != nil || strings.Count(out, "stops "+victims[0]) != 1 || strings.Count(out, "stops "+victims[1]) != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	g.until(2*time.Minute, "the gang runs", func() bool {
		on := g.runningOn("high")
		return on[psg.NodeID(g.nodes[1])] == 1 && on[psg.NodeID(g.nodes[2])] == 1
	})
	t.Logf("the gang runs in place of:\n%s", out)
}
