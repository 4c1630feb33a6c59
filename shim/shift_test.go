package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func TestShift_IsTakenBackByStripAndEndsWithTheNextHint(t *testing.T) {
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 11))
		job, first, second := drawn(rng), drawnHints(rng), drawnHints(rng)
		shifts := map[string]psg.Shift{}
		for i, g := range job.TaskGroups {
			g.Update = &api.UpdateStrategy{MaxParallel: new(1), Canary: new(rng.IntN(3)), AutoPromote: new(rng.IntN(2) == 0)}
			shifts[fmt.Sprint("g", i)] = psg.Shift{From: "n3", Moves: 1 + rng.IntN(3)}
		}
		before := copied(t, job)
		moving := Shift(Steer(job, first), shifts)
		if !reflect.DeepEqual(job, before) {
			t.Fatalf("seed %d: Shift changed its argument", seed)
		}
		if service := text(job.Type) == api.JobTypeService; len(shifting(moving)) != len(job.TaskGroups) && service || len(shifting(moving)) > 0 && !service {
			t.Fatalf("seed %d: %s has shifts of %v", seed, text(job.Type), shifting(moving))
		}
		if got := Strip(moving); !sameJob(t, got, job) {
			t.Fatalf("seed %d: Strip(Shift(Steer(j))) is not j:\n%s\n%s", seed, marshalled(t, got), marshalled(t, job))
		}
		if next := Steer(moving, second); !sameJob(t, next, Steer(job, second)) {
			t.Fatalf("seed %d: the next hint does not end the shift", seed)
		}
	}
}

func sameJob(t *testing.T, a, b *api.Job) bool { return marshalled(t, a) == marshalled(t, b) }

func marshalled(t *testing.T, job *api.Job) string {
	t.Helper()
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), ":[]", ":null")
}

func TestTranslate_SeesThatAShiftRunsAndNotWhatItIs(t *testing.T) {
	job := &api.Job{ID: new("web"), TaskGroups: []*api.TaskGroup{{
		Name: new("g"), Count: new(3), Tasks: []*api.Task{{Name: "main", Driver: "docker"}},
		Update: &api.UpdateStrategy{MaxParallel: new(1), Canary: new(0), AutoPromote: new(false)},
	}}}
	bare, err := TranslateJob(job)
	if err != nil {
		t.Fatal(err)
	}
	moving, err := TranslateJob(Shift(Steer(job, map[string]psg.Hint{"g": {"n1": 3}}), map[string]psg.Shift{"g": {From: "n2", Moves: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	if !moving.Workloads[0].Shifting {
		t.Error("the workload is not shifting")
	}
	moving.Workloads[0].Shifting = false
	if !reflect.DeepEqual(bare.Workloads, moving.Workloads) {
		t.Errorf("a job in a shift translates to %+v, want %+v", moving.Workloads, bare.Workloads)
	}
}

const shiftJob = `{"ID":"web","JobModifyIndex":9,"Version":4,"Type":"service","TaskGroups":[{"Name":"g","Count":2,
	"Update":{"MaxParallel":1,"HealthCheck":"task_states","Canary":0,"AutoPromote":false},"Tasks":[{"Name":"main","Driver":"docker"}]}]}`

func TestEnactor_ShiftsWhatIsThereAndNothingElse(t *testing.T) {
	there := `{"TaskGroup":"g","NodeID":"n1","DesiredStatus":"run","ClientStatus":"running"}`
	for name, one := range map[string]struct {
		change  func(*registry, *psg.Steering)
		want    error
		written int
	}{
		"as many as there are":       {func(*registry, *psg.Steering) {}, nil, 1},
		"one more is there":          {func(r *registry, _ *psg.Steering) { r.allocs += "," + there }, psg.ErrBusy, 0},
		"it ends already":            {func(r *registry, _ *psg.Steering) { r.allocs = strings.Replace(there, `"run"`, `"stop"`, 1) }, psg.ErrBusy, 0},
		"its health is told by hand": {func(r *registry, _ *psg.Steering) { r.job = strings.Replace(r.job, "task_states", "manual", 1) }, psg.ErrInvalid, 0},
		"it updates without deployment": {func(r *registry, _ *psg.Steering) {
			r.job = strings.Replace(r.job, `"MaxParallel":1`, `"MaxParallel":0`, 1)
		}, psg.ErrInvalid, 0},
		"a deployment runs": {func(r *registry, _ *psg.Steering) { r.deployment = `{"Status":"running"}` }, psg.ErrBusy, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &registry{job: shiftJob, deployment: "null", allocs: there}
			s := psg.Steering{
				Job: psg.JobID{Namespace: "default", Job: "web"}, Hints: map[string]psg.Hint{"g": {"n2": 2}},
				Shifts: map[string]psg.Shift{"g": {From: "n1", Moves: 1}},
			}
			one.change(r, &s)
			r.allocs = "[" + r.allocs + "]"
			_, err := NewEnactor(r.client(t)).Steer(t.Context(), s, ready)
			if !errors.Is(err, one.want) || len(r.registered) != one.written {
				t.Fatalf("Steer = %v with %d registrations, want %v with %d", err, len(r.registered), one.want, one.written)
			}
			if one.written > 0 && !strings.Contains(r.registered[0], `"Canary":1`) {
				t.Errorf("registered %s", r.registered[0])
			}
		})
	}
}

func TestEnactor_TellsHowFarAShiftHasCome(t *testing.T) {
	job := new(api.Job)
	if err := json.Unmarshal([]byte(shiftJob), job); err != nil {
		t.Fatal(err)
	}
	moving := marshalled(t, Shift(job, map[string]psg.Shift{"g": {From: "n1", Moves: 1}}))
	for name, one := range map[string]struct {
		job, deployment string
		want            psg.ShiftState
	}{
		"no deployment yet":         {moving, "null", psg.ShiftRuns},
		"one of before":             {moving, `{"JobVersion":3,"Status":"successful"}`, psg.ShiftRuns},
		"its deployment runs":       {moving, `{"JobVersion":4,"Status":"running"}`, psg.ShiftRuns},
		"they took over":            {moving, `{"JobVersion":4,"Status":"successful"}`, psg.ShiftDone},
		"they are not healthy":      {moving, `{"JobVersion":4,"Status":"failed"}`, psg.ShiftFailed},
		"the job was changed":       {shiftJob, `{"JobVersion":4,"Status":"running"}`, psg.ShiftGone},
		"the job was put to an end": {strings.Replace(moving, `"Stop":null`, `"Stop":true`, 1), "null", psg.ShiftGone},
	} {
		r := &registry{job: one.job, deployment: one.deployment}
		if got, err := NewEnactor(r.client(t)).Shifting(t.Context(), psg.JobID{Namespace: "default", Job: "web"}); err != nil || got != one.want {
			t.Errorf("%s: %s, %v; want %s", name, got, err, one.want)
		}
	}
	r := &registry{job: moving, deployment: `{"JobVersion":4,"Status":"running","TaskGroups":{"g":{"DesiredCanaries":1}}}`}
	steady := psg.Steering{Job: psg.JobID{Namespace: "default", Job: "web"}, Hints: map[string]psg.Hint{"g": {"n1": 1}}}
	if _, err := NewEnactor(r.client(t)).Steer(t.Context(), steady, ready); !errors.Is(err, psg.ErrBusy) {
		t.Errorf("steered while the shift runs: %v", err)
	}
	steady.Abandon = true
	if changed, err := NewEnactor(r.client(t)).Steer(t.Context(), steady, ready); err != nil || !changed || strings.Contains(r.registered[0], shiftMark) {
		t.Errorf("abandoned: %t, %v, %v", changed, err, r.registered)
	}
}

func TestEnactor_TakesBackHintsToNodesThatAreGone(t *testing.T) {
	job := new(api.Job)
	if err := json.Unmarshal([]byte(shiftJob), job); err != nil {
		t.Fatal(err)
	}
	r := &registry{job: marshalled(t, Steer(job, map[string]psg.Hint{"g": {"n1": 1, "n2": 1}})), deployment: "null", allocs: "[]"}
	s := psg.Steering{Job: psg.JobID{Namespace: "default", Job: "web"}, Hints: map[string]psg.Hint{"g": {"n2": 2}}}
	for gone, want := range map[psg.NodeID]bool{"n3": false, "n1": true} {
		s.Gone = []psg.NodeID{gone}
		if changed, err := NewEnactor(r.client(t)).Steer(t.Context(), s, ready); err != nil || changed != want {
			t.Errorf("%s gone: %t, %v; want %t", gone, changed, err, want)
		}
	}
}
