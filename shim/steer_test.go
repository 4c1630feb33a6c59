package shim

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// drawn is a job with random constraints, affinities and spreads, among them
// some that look much like PSG's own.
func drawn(rng *rand.Rand) *api.Job {
	kinds := []string{api.JobTypeService, api.JobTypeBatch, api.JobTypeSystem}
	job := &api.Job{ID: new("drawn"), Type: &kinds[rng.IntN(len(kinds))]}
	if rng.IntN(4) == 0 {
		job.Spreads = []*api.Spread{api.NewSpread(nodeID, 50, nil)}
	}
	for i := range 1 + rng.IntN(3) {
		g := &api.TaskGroup{Name: new(fmt.Sprint("g", i)), Count: new(rng.IntN(6))}
		for range rng.IntN(3) {
			g.Constraints = append(g.Constraints, []*api.Constraint{
				{LTarget: markAttribute, Operand: "!=", RTarget: "gpu"},
				{LTarget: holdAttribute, Operand: "=", RTarget: holdValue}, nil,
			}[rng.IntN(3)])
		}
		for range rng.IntN(3) {
			g.Affinities = append(g.Affinities, []*api.Affinity{
				api.NewAffinity(nodeID, api.ConstraintSetContainsAny, "n0,n1", 100),
				api.NewAffinity(nodeID, "=", "n0", 100), nil,
			}[rng.IntN(3)])
		}
		for range rng.IntN(3) {
			g.Spreads = append(g.Spreads, []*api.Spread{
				api.NewSpread(nodeID, 100, []*api.SpreadTarget{api.NewSpreadTarget("n0", 50), api.NewSpreadTarget("n1", 50)}),
				api.NewSpread("${node.datacenter}", 100, nil), nil,
			}[rng.IntN(3)])
		}
		job.TaskGroups = append(job.TaskGroups, g)
	}
	return job
}

func drawnHints(rng *rand.Rand) map[string]psg.Hint {
	hints := map[string]psg.Hint{}
	for i := range 3 {
		hint := psg.Hint{}
		for range rng.IntN(4) {
			hint[psg.NodeID(fmt.Sprint("n", rng.IntN(5)))] = rng.IntN(5)
		}
		hints[fmt.Sprint("g", i)] = hint
	}
	return hints
}

func copied(t *testing.T, job *api.Job) *api.Job {
	t.Helper()
	out := *job
	out.TaskGroups = nil
	for _, g := range job.TaskGroups {
		g := *g
		g.Constraints = append([]*api.Constraint(nil), g.Constraints...)
		g.Affinities = append([]*api.Affinity(nil), g.Affinities...)
		g.Spreads = append([]*api.Spread(nil), g.Spreads...)
		out.TaskGroups = append(out.TaskGroups, &g)
	}
	return &out
}

func TestSteer_IsTakenBackByStripAndReplacesItself(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 7))
		job, first, second := drawn(rng), drawnHints(rng), drawnHints(rng)
		before := copied(t, job)
		steered := Steer(job, first)
		if !reflect.DeepEqual(job, before) {
			t.Fatalf("seed %d: Steer changed its argument", seed)
		}
		if got := Strip(steered); !reflect.DeepEqual(got, job) {
			t.Fatalf("seed %d: Strip(Steer(j)) is not j", seed)
		}
		if again := Steer(steered, first); !reflect.DeepEqual(again, steered) {
			t.Fatalf("seed %d: steering twice differs from once", seed)
		}
		if moved := Steer(steered, second); !reflect.DeepEqual(moved, Steer(job, second)) {
			t.Fatalf("seed %d: the second hint does not replace the first", seed)
		}
	}
}

func TestSteer_SharesAddUpAndNobodyGetsNothing(t *testing.T) {
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 9))
		hint := psg.Hint{}
		for i := range 1 + rng.IntN(maxTargets) {
			hint[psg.NodeID(fmt.Sprintf("node-%02d", i))] = 1 + rng.IntN(1+rng.IntN(400))
		}
		job := &api.Job{TaskGroups: []*api.TaskGroup{{Name: new("g")}}}
		spread := Steer(job, map[string]psg.Hint{"g": hint}).TaskGroups[0].Spreads[0]
		sum := 0
		for _, target := range spread.SpreadTarget {
			if target.Percent == 0 {
				t.Fatalf("seed %d: %s gets no share", seed, target.Value)
			}
			sum += int(target.Percent)
		}
		if sum != 100 || len(spread.SpreadTarget) != len(hint) {
			t.Fatalf("seed %d: %d shares add up to %d", seed, len(spread.SpreadTarget), sum)
		}
	}
}

func TestSteer_LeavesOutWhatNomadWouldRefuse(t *testing.T) {
	hint := map[string]psg.Hint{"g": {"n1": 2}}
	group := func(g api.TaskGroup) []*api.TaskGroup { g.Name = new("g"); return []*api.TaskGroup{&g} }
	own := []*api.Spread{api.NewSpread(nodeID, 10, nil)}
	for name, job := range map[string]*api.Job{
		"system":                  {Type: new("system"), TaskGroups: group(api.TaskGroup{})},
		"job spreads over nodes":  {Spreads: own, TaskGroups: group(api.TaskGroup{})},
		"group not named by hint": {TaskGroups: []*api.TaskGroup{{Name: new("other")}}},
	} {
		if Steered(Steer(job, hint)) {
			t.Errorf("%s: steered", name)
		}
	}
	spreads := Steer(&api.Job{TaskGroups: group(api.TaskGroup{Spreads: own})}, hint).TaskGroups[0]
	if len(spreads.Spreads) != 1 || len(spreads.Affinities) != 1 {
		t.Errorf("a group that spreads over nodes itself: %d spreads, %d affinities; want its own spread and PSG's affinity", len(spreads.Spreads), len(spreads.Affinities))
	}
}

func TestTranslate_DoesNotSeePSGsOwnSteering(t *testing.T) {
	job := &api.Job{ID: new("web"), TaskGroups: []*api.TaskGroup{{
		Name: new("g"), Count: new(3), Tasks: []*api.Task{{Name: "main", Driver: "docker"}},
	}}}
	bare, err := TranslateJob(job)
	if err != nil {
		t.Fatal(err)
	}
	steered, err := TranslateJob(Steer(job, map[string]psg.Hint{"g": {"n1": 2, "n2": 1}}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(bare, steered) {
		t.Errorf("steered job translates to %+v, want %+v", steered, bare)
	}
}
