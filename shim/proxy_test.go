package shim

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// planner answers as it is told to and remembers what it was asked.
type planner struct {
	mu        sync.Mutex
	err       error
	reject    string
	hint      psg.Hint
	hold      bool
	outside   bool     // of an older make, which says it in verdicts alone
	places    []string // namespaces
	judged    int
	planned   int
	abandoned int
	asked     []psg.Workload // the last that were judged
}

func (p *planner) verdicts(workloads []psg.Workload) ([]psg.Verdict, error) {
	if p.err != nil {
		return nil, p.err
	}
	var out []psg.Verdict
	for _, w := range workloads {
		v := psg.Verdict{Workload: w.ID, Hint: p.hint, Hold: p.hold, Outside: p.outside}
		if p.reject != "" {
			v.Rejected = []psg.Reason{{Source: "policy test", Text: p.reject}}
		}
		out = append(out, v)
	}
	return out, nil
}

func (p *planner) Namespaces(context.Context) ([]string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outside && p.err == nil {
		return nil, errors.New("404 Not Found")
	}
	return p.places, p.err
}

func (p *planner) Judge(_ context.Context, workloads []psg.Workload) ([]psg.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judged++
	p.asked = workloads
	return p.verdicts(workloads)
}

func (p *planner) Plan(_ context.Context, _ psg.RequestID, workloads []psg.Workload) ([]psg.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned++
	return p.verdicts(workloads)
}

func (p *planner) Abandon(context.Context, psg.RequestID, []psg.WorkloadID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.abandoned++
	return nil
}

// behind is a Nomad that stores what it is sent, behind a proxy.
type behind struct {
	proxy    *httptest.Server
	serves   *Proxy
	requests []string // method, escaped path and query of each write, with its token
	bodies   []string
	stored   string // the job that GET answers; none if empty
	versions string // of that job; as stored if empty
	regions  string // that Nomad knows; it does not say if empty
	refuse   bool   // every write
	broken   bool   // every read fails
}

func newBehind(t *testing.T, plans Planner, closed bool) *behind {
	b := new(behind)
	nomad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/regions" && b.regions != "":
			io.WriteString(w, b.regions)
		case r.Method == http.MethodGet && b.broken:
			http.Error(w, "No cluster leader", http.StatusInternalServerError)
		case strings.HasSuffix(r.URL.Path, "/versions") && b.versions != "":
			io.WriteString(w, b.versions)
		case r.Method == http.MethodGet && b.stored == "":
			http.Error(w, "job not found", http.StatusNotFound)
		case r.Method == http.MethodGet:
			io.WriteString(w, b.stored)
		case b.refuse:
			http.Error(w, "Permission denied", http.StatusForbidden)
		default:
			body, _ := io.ReadAll(r.Body)
			b.requests = append(b.requests, r.Method+" "+r.URL.EscapedPath()+"?"+r.URL.RawQuery+" "+r.Header.Get("X-Nomad-Token"))
			b.bodies = append(b.bodies, string(body))
			io.WriteString(w, `{"JobModifyIndex":7,"Warnings":"nomad's own"}`)
		}
	}))
	t.Cleanup(nomad.Close)
	address, err := url.Parse(nomad.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.serves = NewProxy(plans, ProxyConfig{
		Nomad: address, Transport: http.DefaultTransport, Region: "eu", FailClosed: closed, Log: slog.New(slog.DiscardHandler),
	})
	b.proxy = httptest.NewServer(b.serves)
	t.Cleanup(b.proxy.Close)
	return b
}

// config changes how the proxy is made, before it is asked anything.
func (b *behind) config(change func(*ProxyConfig)) {
	change(&b.serves.config)
	b.serves.scope.fixed = b.serves.config.Namespaces
}

func (b *behind) put(t *testing.T, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPut, b.proxy.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Nomad-Token", "callers")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(answer)
}

// managedJob is a registration of a job with a gate that asks for a card.
func managedJob(extra string) string {
	return `{"Job":{"ID":"web","Tomorrow":9007199254740993` + extra + `,"TaskGroups":[{"Name":"g","Count":2,"Tasks":[
		{"Name":"gate","Driver":"psg","Lifecycle":{"Hook":"prestart"},"Config":{"gpu":[{"count":1}]}},
		{"Name":"main","Driver":"docker"},{"Name":"init","Driver":"docker","Lifecycle":{"Hook":"prestart"}}]}]},"PolicyOverride":true}`
}

func TestProxy_RegistersEquippedAndSteered(t *testing.T) {
	plans := &planner{hint: psg.Hint{"n1": 1, "n2": 1}}
	b := newBehind(t, plans, true)
	code, answer := b.put(t, "/v1/jobs?namespace=ml&odd=%zz", managedJob(`,"Namespace":"ml"`))
	if code != http.StatusOK || len(b.requests) != 1 {
		t.Fatalf("%d %s, requests %v", code, answer, b.requests)
	}
	if want := "PUT /v1/jobs?namespace=ml&odd=%zz callers"; b.requests[0] != want {
		t.Errorf("request %q, want %q", b.requests[0], want)
	}
	for _, want := range []string{`"Tomorrow":9007199254740993`, `"PolicyOverride":true`, markValue, `"Percent":50`, `"Disabled":true`,
		grantSource, `"HealthyDeadline":1800000000000`} {
		if !strings.Contains(b.bodies[0], want) {
			t.Errorf("registration lacks %s:\n%s", want, b.bodies[0])
		}
	}
	if !strings.Contains(answer, "nomad's own") || !strings.Contains(answer, `task \"init\" is a prestart task beside a gate`) {
		t.Errorf("answer %s lacks a warning", answer)
	}
	var sent struct{ Job json.RawMessage }
	if err := json.Unmarshal([]byte(b.bodies[0]), &sent); err != nil {
		t.Fatal(err)
	}
	b.stored = string(sent.Job)
	if code, answer := b.put(t, "/v1/job/web?namespace=ml", managedJob(`,"Namespace":"ml"`)); code != http.StatusOK {
		t.Fatalf("%d %s", code, answer)
	}
	if plans.planned != 1 || plans.judged != 1 {
		t.Errorf("the same again was planned %d times and judged %d times, want 1 and 1", plans.planned, plans.judged)
	}
	if b.bodies[1] != b.bodies[0] {
		t.Errorf("the same again was sent as\n%s\nnot as\n%s", b.bodies[1], b.bodies[0])
	}
}

func TestProxy_JudgesARegistrationByEachPath(t *testing.T) {
	for _, path := range []string{"/v1/jobs", "/v1/job/web", "/v1/job/", "/v1/job/web/plan", "/v1/job/another"} {
		b := newBehind(t, &planner{reject: "never"}, true)
		if code, answer := b.put(t, path, managedJob("")); code != http.StatusBadRequest || len(b.bodies) > 0 {
			t.Errorf("%s: %d %s; want it refused", path, code, answer)
		}
	}
}

func TestProxy_Refuses(t *testing.T) {
	for name, one := range map[string]struct {
		planner *planner
		body    string
		code    int
		say     string
	}{
		"what policy rejects":        {&planner{reject: "not on a Friday"}, managedJob(""), 400, "PSG refuses the job: 1 error occurred:\n\t* group \"g\": policy test: not on a Friday"},
		"what nobody can judge":      {&planner{err: errDown}, managedJob(""), 503, "no controller"},
		"a stanza that means naught": {&planner{}, strings.Replace(managedJob(""), `"count":1`, `"cuont":1`, 1), 400, "cuont"},
		"more than there can be":     {&planner{}, strings.Repeat(" ", maxInput) + managedJob(""), 413, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t, one.planner, true)
			code, answer := b.put(t, "/v1/jobs", one.body)
			if code != one.code || !strings.Contains(answer, one.say) || len(b.requests) > 0 {
				t.Errorf("%d %s with %d requests to Nomad, want %d %q and none", code, answer, len(b.requests), one.code, one.say)
			}
		})
	}
}

func TestProxy_PassesJobsOfOtherNamespaces(t *testing.T) {
	plans := &planner{hint: psg.Hint{"n1": 2}, reject: "nothing is right"}
	b := newBehind(t, plans, true)
	b.config(func(c *ProxyConfig) { c.Namespaces = []string{"ml"} })
	if code, answer := b.put(t, "/v1/jobs", managedJob("")); code != http.StatusOK || strings.Contains(b.bodies[0], markValue) {
		t.Errorf("default: %d %s, sent %v", code, answer, b.bodies)
	}
	if code, _ := b.put(t, "/v1/jobs?namespace=ml", managedJob("")); code != http.StatusBadRequest {
		t.Errorf("ml: %d, want it judged", code)
	}
}

func TestProxy_FailOpenRegistersUnplannedWithAWarning(t *testing.T) {
	b := newBehind(t, &planner{err: errors.New("nobody home")}, false)
	code, answer := b.put(t, "/v1/jobs", managedJob(""))
	if code != http.StatusOK || !strings.Contains(answer, "nobody home") || strings.Contains(b.bodies[0], markValue) {
		t.Errorf("%d %s, sent %v", code, answer, b.bodies)
	}
}

func TestProxy_GivesBackWhatNomadRefuses(t *testing.T) {
	plans := &planner{}
	b := newBehind(t, plans, true)
	b.refuse = true
	code, answer := b.put(t, "/v1/jobs", managedJob(""))
	if code != http.StatusForbidden || !strings.Contains(answer, "Permission denied") || plans.abandoned != 1 {
		t.Errorf("%d %s, abandoned %d times; want Nomad's answer and the plan given back", code, answer, plans.abandoned)
	}
}

func TestProxy_HoldsWhatMustWait(t *testing.T) {
	b := newBehind(t, &planner{hold: true, hint: psg.Hint{"n1": 1}}, true)
	b.put(t, "/v1/jobs", managedJob(""))
	if !strings.Contains(b.bodies[0], holdAttribute) || strings.Contains(b.bodies[0], markValue) {
		t.Errorf("sent %s, want it held and without hints", b.bodies[0])
	}
}

func TestProxy_PassesUntouched(t *testing.T) {
	plain := `{"Job": {"ID":"web", "TaskGroups":[{"Name":"g","Tasks":[{"Name":"main","Driver":"docker"}]}]}}`
	for name, one := range map[string][2]string{
		"a job without a gate":   {"/v1/jobs", plain},
		"no JSON":                {"/v1/jobs", "{"},
		"no job":                 {"/v1/job/a%2Fb", `{"Job":null}`},
		"another region":         {"/v1/jobs?region=us", managedJob("")},
		"a job of other regions": {"/v1/jobs", managedJob(`,"Multiregion":{"Regions":[{"Name":"us"}]}`)},
		"an evaluation":          {"/v1/job/%C3%BCber%2Fx/evaluate", `{"JobID":"über/x"}`},
		"a stop of something":    {"/v1/allocation/123/stop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBehind(t, &planner{reject: "everything"}, true)
			if code, answer := b.put(t, one[0], one[1]); code != http.StatusOK {
				t.Fatalf("%d %s", code, answer)
			}
			if !strings.HasPrefix(b.requests[0], "PUT "+one[0]) || b.bodies[0] != one[1] {
				t.Errorf("sent on as %s %s", b.requests[0], b.bodies[0])
			}
		})
	}
}

func TestProxy_PlanShowsTheUsersChangesAlone(t *testing.T) {
	b := newBehind(t, &planner{hint: psg.Hint{"n1": 2}}, true)
	b.put(t, "/v1/jobs", managedJob(""))
	var sent struct{ Job api.Job }
	if err := json.Unmarshal([]byte(b.bodies[0]), &sent); err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(sent.Job)
	if err != nil {
		t.Fatal(err)
	}
	b.stored = string(stored)
	b.put(t, "/v1/job/web/plan", strings.Replace(managedJob(""), `"Count":2`, `"Count":5`, 1))
	var planned struct{ Job api.Job }
	if err := json.Unmarshal([]byte(b.bodies[1]), &planned); err != nil {
		t.Fatal(err)
	}
	if *planned.Job.TaskGroups[0].Count != 5 {
		t.Fatal("the user's change is not there")
	}
	planned.Job.TaskGroups[0].Count = sent.Job.TaskGroups[0].Count
	if !same(&planned.Job, &sent.Job) {
		t.Errorf("besides the count, the plan is for\n%s\nand Nomad has\n%s", b.bodies[1], b.bodies[0])
	}
}

func FuzzProxy_NeverPanicsNorLosesARequest(f *testing.F) {
	f.Add("/v1/jobs", managedJob(""))
	f.Add("/v1/job/web/scale", `{"Count":3,"Target":{"Group":"g"}}`)
	f.Add("/v1/job/web/revert", `{"JobVersion":1}`)
	f.Add("/v1/validate/job", managedJob(`,"TaskGroups":null`))
	f.Add("/v1/job//plan", `{"Job":{"ID":null,"TaskGroups":[null]}}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		nomad := roundTrip(func(*http.Request) string { return managedJob("") })
		proxy := NewProxy(&planner{hint: psg.Hint{"n1": 1}}, ProxyConfig{
			Nomad: &url.URL{Scheme: "http", Host: "nomad"}, Transport: nomad, Log: slog.New(slog.DiscardHandler),
		})
		request := httptest.NewRequest(http.MethodPut, "/", strings.NewReader(body))
		request.URL.Path = path
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, request)
		if answer.Code < 200 {
			t.Errorf("answered %d", answer.Code)
		}
	})
}

// roundTrip answers every request to Nomad with 200.
type roundTrip func(*http.Request) string

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(f(r))), Request: r}, nil
}

// slow is a connection that ends when it is to be read to the end by then.
type slow struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (s *slow) SetReadDeadline(until time.Time) error {
	s.until = until
	return nil
}

func (s *slow) Read([]byte) (int, error) {
	if s.until.IsZero() {
		return 0, errors.New("it would be read for ever")
	}
	return 0, os.ErrDeadlineExceeded
}

func TestProxy_WaitsNotForEverForARequest(t *testing.T) {
	b := newBehind(t, &planner{}, true)
	for path := range writes("") {
		answer := &slow{ResponseRecorder: httptest.NewRecorder()}
		b.serves.ServeHTTP(answer, httptest.NewRequest(http.MethodPut, path, answer))
		if answer.Code != http.StatusRequestTimeout || !answer.until.IsZero() || len(b.bodies) > 0 {
			t.Errorf("%s: %d %s; the connection is to be read by %s", path, answer.Code, answer.Body, answer.until)
		}
	}
}
