package shim

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

const storedJob = `{"ID":"a/b","Namespace":"default","JobModifyIndex":9007199254740993,"Version":4,"Type":%TYPE%,"Stop":false,
	"FieldOfTomorrow":{"n":9007199254740995},"VersionTag":{"Name":"v1"},
	"Constraints":[{"LTarget":"${meta.psg_hold}","RTarget":"never","Operand":"="},{"LTarget":"${attr.os.name}","RTarget":"ubuntu","Operand":"="}],
	"taskgroups":[{"Name":"g","Count":2,"Tomorrow":true,"Tasks":[{"Name":"main","Driver":"docker","Config":{"n":1.50}}]}]}`

// registry is as much of Nomad as an Enactor uses.
type registry struct {
	job         string
	deployment  string
	allocs      string
	evaluations string
	conflicts   int
	registered  []string
	evaluated   bool
}

func (r *registry) client(t *testing.T) *api.Client {
	server := httptest.NewServer(r.handler())
	t.Cleanup(server.Close)
	client, err := api.NewClient(&api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (r *registry) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/job/{id}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, r.job) })
	mux.HandleFunc("GET /v1/job/{id}/deployment", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, r.deployment) })
	mux.HandleFunc("GET /v1/job/{id}/allocations", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, r.allocs) })
	mux.HandleFunc("GET /v1/job/{id}/submission", func(w http.ResponseWriter, q *http.Request) {
		io.WriteString(w, `{"Source":"source of version `+q.URL.Query().Get("version")+`"}`)
	})
	mux.HandleFunc("GET /v1/job/{id}/evaluations", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, r.evaluations) })
	mux.HandleFunc("PUT /v1/job/{id}/evaluate", func(w http.ResponseWriter, _ *http.Request) {
		r.evaluated = true
		io.WriteString(w, "{}")
	})
	mux.HandleFunc("PUT /v1/jobs", func(w http.ResponseWriter, q *http.Request) {
		if r.conflicts > 0 {
			r.conflicts--
			http.Error(w, api.RegisterEnforceIndexErrPrefix+" 1: job exists with conflicting job modify index: 2", http.StatusInternalServerError)
			return
		}
		body, _ := io.ReadAll(q.Body)
		r.registered = append(r.registered, string(body))
		io.WriteString(w, `{}`)
	})
	return mux
}

func serviceRegistry() *registry {
	return &registry{job: strings.Replace(storedJob, "%TYPE%", `"service"`, 1), deployment: "null", allocs: "[]"}
}

func hintG(job string) psg.Steering {
	return psg.Steering{Job: psg.JobID{Namespace: "default", Job: job}, Hints: map[string]psg.Hint{"g": {"n1": 2}}, Supersede: true}
}

func ready() error { return nil }

// canaries has a deployment run with a state of group g.
func canaries(state string) func(*registry, *psg.Steering) {
	return func(r *registry, s *psg.Steering) {
		r.deployment = `{"Status":"running","TaskGroups":{"g":` + state + `}}`
		s.Waiting = []psg.AllocID{"waits"}
	}
}

// releasing is canaries of a job that is held, as a whole or in a group without any.
func releasing(held func(string) string, state string) func(*registry, *psg.Steering) {
	return func(r *registry, s *psg.Steering) {
		canaries(state)(r, s)
		r.job, s.Release, s.Supersede = held(r.job), true, false
	}
}

func keep(job string) string { return job }

func free(job string) string {
	const hold = `{"LTarget":"${meta.psg_hold}","RTarget":"never","Operand":"="}`
	job = strings.Replace(job, hold+",", "", 1)
	return strings.Replace(job, `"taskgroups":[`, `"taskgroups":[{"Name":"held","Constraints":[`+hold+`],"Tasks":[]},`, 1)
}

func TestEnactor_ChangesOnlyWhatItMust(t *testing.T) {
	r := serviceRegistry()
	r.conflicts = 2
	s := hintG("a/b")
	s.Release = true
	if changed, err := NewEnactor(r.client(t)).Steer(t.Context(), s, ready); err != nil || !changed {
		t.Fatalf("Steer = %t, %v", changed, err)
	}
	body := r.registered[0]
	for _, want := range []string{
		`"FieldOfTomorrow":{"n":9007199254740995}`, `"Tomorrow":true`, `"Config":{"n":1.50}`,
		`"EnforceIndex":true`, `"JobModifyIndex":9007199254740993`, `"Source":"source of version 4"`,
		`"RTarget":"ubuntu"`, markValue, `"Percent":100`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("registration lacks %s:\n%s", want, body)
		}
	}
	for _, gone := range []string{"psg_hold", "VersionTag"} {
		if strings.Contains(body, gone) {
			t.Errorf("registration has %s:\n%s", gone, body)
		}
	}
	var stored struct{ Job json.RawMessage }
	if err := json.Unmarshal([]byte(body), &stored); err != nil {
		t.Fatal(err)
	}
	r.job = string(stored.Job)
	if changed, err := NewEnactor(r.client(t)).Steer(t.Context(), s, ready); err != nil || changed {
		t.Errorf("the same again: Steer = %t, %v; want nothing written", changed, err)
	}
}

func TestEnactor_LeavesAJobAloneWhen(t *testing.T) {
	lost := errors.New("lost the lead")
	for name, one := range map[string]struct {
		change  func(*registry, *psg.Steering)
		leads   error
		want    error
		written int
	}{
		"a deployment runs":               {func(r *registry, s *psg.Steering) { r.deployment, s.Supersede = `{"Status":"running"}`, false }, nil, psg.ErrBusy, 0},
		"a deployment waits for this":     {func(r *registry, _ *psg.Steering) { r.deployment = `{"Status":"running"}` }, nil, nil, 1},
		"a deployment has canaries":       {canaries(`{"DesiredCanaries":2,"PlacedCanaries":["c1","c2"]}`), nil, psg.ErrBusy, 0},
		"none of its canaries is placed":  {canaries(`{"DesiredCanaries":2}`), nil, nil, 1},
		"one of its canaries waits":       {canaries(`{"DesiredCanaries":2,"PlacedCanaries":["c1","waits"]}`), nil, nil, 1},
		"a canary runs in another group":  {canaries(`{"DesiredCanaries":1,"PlacedCanaries":["c1"]},"h":{}`), nil, psg.ErrBusy, 0},
		"a hold goes, and a canary runs":  {releasing(free, `{"DesiredCanaries":1,"PlacedCanaries":["c1"]}`), nil, psg.ErrBusy, 0},
		"a hold goes, of canaries":        {releasing(keep, `{"DesiredCanaries":1}`), nil, nil, 1},
		"a hold goes that canaries await": {releasing(keep, `{"DesiredCanaries":1},"h":{"DesiredCanaries":1,"PlacedCanaries":["c1"]}`), nil, nil, 1},
		"a hold goes, somebody paused": {func(r *registry, s *psg.Steering) {
			s.Release, s.Supersede, r.deployment = true, false, `{"Status":"paused"}`
		}, nil, psg.ErrBusy, 0},
		"its canaries are promoted": {func(r *registry, _ *psg.Steering) {
			r.deployment = `{"Status":"running","TaskGroups":{"g":{"DesiredCanaries":1,"Promoted":true}}}`
		}, nil, nil, 1},
		"somebody paused a deployment": {func(r *registry, _ *psg.Steering) { r.deployment = `{"Status":"paused"}` }, nil, psg.ErrBusy, 0},
		"the last deployment failed":   {func(r *registry, _ *psg.Steering) { r.deployment = `{"Status":"failed"}` }, nil, nil, 1},
		"an instance would run again": {func(r *registry, _ *psg.Steering) {
			r.job = strings.Replace(storedJob, "%TYPE%", `"batch"`, 1)
			r.allocs = `[{"ClientStatus":"complete","DesiredStatus":"run"}]`
		}, nil, psg.ErrUnknown, 0},
		"it is stopped": {func(r *registry, _ *psg.Steering) { r.job = strings.Replace(r.job, `"Stop":false`, `"Stop":true`, 1) }, nil, psg.ErrUnknown, 0},
		"it was dispatched": {func(r *registry, _ *psg.Steering) {
			r.job = strings.Replace(r.job, `"Stop"`, `"Dispatched":true,"Stop"`, 1)
		}, nil, psg.ErrUnknown, 0},
		"it changes all the time":   {func(r *registry, _ *psg.Steering) { r.conflicts = 1000 }, nil, psg.ErrBusy, 0},
		"this controller lost lead": {func(*registry, *psg.Steering) {}, lost, lost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := serviceRegistry(), hintG("a/b")
			one.change(r, &s)
			_, err := NewEnactor(r.client(t)).Steer(t.Context(), s, func() error { return one.leads })
			if !errors.Is(err, one.want) || len(r.registered) != one.written {
				t.Errorf("Steer = %v with %d registrations, want %v with %d", err, len(r.registered), one.want, one.written)
			}
		})
	}
}

func TestUnheld_TakesTheHoldOffAtEveryLevel(t *testing.T) {
	hold := func() []*api.Constraint {
		return []*api.Constraint{api.NewConstraint("${attr.a}", "=", "b"), api.NewConstraint(holdAttribute, "=", holdValue)}
	}
	job := &api.Job{Constraints: hold(), TaskGroups: []*api.TaskGroup{{Constraints: hold(), Tasks: []*api.Task{{Constraints: hold()}}}}}
	free := unheld(job)
	lists := [][]*api.Constraint{free.Constraints, free.TaskGroups[0].Constraints, free.TaskGroups[0].Tasks[0].Constraints}
	for i, list := range lists {
		if heldBy(list) || len(list) != 1 {
			t.Errorf("level %d keeps %d constraints, want the user's one", i, len(list))
		}
	}
	if !slices.ContainsFunc(job.TaskGroups[0].Tasks[0].Constraints, isHold) {
		t.Error("the job itself was changed")
	}
}

func TestEnactor_HealsWhatNomadHasForgotten(t *testing.T) {
	for name, one := range map[string]struct {
		change func(*registry)
		want   bool
	}{
		"nothing is pending":    {func(*registry) {}, true},
		"an evaluation waits":   {func(r *registry) { r.evaluations = `[{"Status":"blocked"}]` }, false},
		"a deployment runs":     {func(r *registry) { r.deployment = `{"Status":"running"}` }, false},
		"nothing is missing":    {func(r *registry) { r.allocs += `,{"TaskGroup":"g","ClientStatus":"pending"}` }, false},
		"the job is stopped":    {func(r *registry) { r.job = strings.Replace(r.job, `"Stop":false`, `"Stop":true`, 1) }, false},
		"it is a batch job":     {func(r *registry) { r.job = strings.Replace(r.job, `"service"`, `"batch"`, 1) }, false},
		"an evaluation is done": {func(r *registry) { r.evaluations = `[{"Status":"complete"}]` }, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := serviceRegistry()
			r.evaluations, r.allocs = "[]", `{"TaskGroup":"g","ClientStatus":"running"},{"TaskGroup":"g","ClientStatus":"failed"}`
			one.change(r)
			r.allocs = "[" + r.allocs + "]"
			healed, err := NewEnactor(r.client(t)).Heal(t.Context(), psg.JobID{Namespace: "default", Job: "a/b"})
			if err != nil || healed != one.want || r.evaluated != one.want {
				t.Errorf("Heal = %t, %v, evaluated %t; want %t", healed, err, r.evaluated, one.want)
			}
		})
	}
}

// What Nomad has, or may have, taken in is told apart from what it has refused.
func TestEnactor_SaysWhetherAVersionMayHaveBeenWritten(t *testing.T) {
	for name, one := range map[string]struct {
		answer  http.HandlerFunc
		written bool
	}{
		"Nomad refuses it": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "job is not valid", http.StatusInternalServerError)
		}, false},
		"Nomad's leader lost the lead": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "rpc error: leadership lost while committing log", http.StatusInternalServerError)
		}, true},
		"its answer is cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"its evaluation cannot be read": {func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"EvalID":"e1"}`)
		}, true},
	} {
		r := serviceRegistry()
		mux := http.NewServeMux()
		mux.HandleFunc("PUT /v1/jobs", one.answer)
		mux.HandleFunc("GET /v1/evaluation/{id}", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no leader", http.StatusInternalServerError)
		})
		mux.Handle("/", r.handler())
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		client, err := api.NewClient(&api.Config{Address: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		written, err := NewEnactor(client).Steer(t.Context(), hintG("a/b"), ready)
		if err == nil || written != one.written {
			t.Errorf("%s: written %t, %v; want %t and an error", name, written, err, one.written)
		}
	}
}

// A stop that may have been made is told apart from one that Nomad refuses.
func TestEnactor_SaysWhetherAnAllocationMayHaveBeenStopped(t *testing.T) {
	for name, one := range map[string]struct {
		answer http.HandlerFunc
		unsure bool
	}{
		"Nomad refuses it": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Permission denied", http.StatusForbidden)
		}, false},
		"its answer is cut off": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"another server's answer is": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "rpc error: EOF", http.StatusInternalServerError)
		}, true},
	} {
		server := httptest.NewServer(one.answer)
		t.Cleanup(server.Close)
		client, err := api.NewClient(&api.Config{Address: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if err := NewEnactor(client).Stop(t.Context(), "a1"); err == nil || errors.Is(err, psg.ErrUnavailable) != one.unsure {
			t.Errorf("%s: %v; unsure: want %t", name, err, one.unsure)
		}
	}
}
