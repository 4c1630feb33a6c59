package nomad_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// asked is one request to Nomad's API.
type asked struct {
	method, path, body string
	header             http.Header
}

// send sends it to an address and returns all that is the same each time.
func (a asked) send(address string) (string, error) {
	var body io.Reader
	if a.body != "" {
		body = strings.NewReader(a.body)
	}
	request, err := http.NewRequest(a.method, address+a.path, body)
	if err != nil {
		return "", err
	}
	for name, values := range a.header {
		request.Header[name] = values
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	told := response.Header
	for _, each := range []string{"Date", "Content-Length", "X-Nomad-Lastcontact", "X-Nomad-Index"} {
		told.Del(each)
	}
	return fmt.Sprintf("%s\n%v\n%s", response.Status, told, answer), err
}

func zipped(t *testing.T, text string) string {
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if _, err := io.WriteString(zip, text); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// same sends to Nomad and to the proxy what is none of PSG's business: the answers
// are the same, mistakes and all.
func (g *grid) same(t *testing.T, address string) {
	ids := []string{"a/b", "über", "%2F", "Team.Web_1"}
	for _, id := range ids {
		g.register(sleeper(id, 0, 10, 16))
	}
	job, err := json.Marshal(map[string]any{"Job": gated("same", 1, classB())})
	if err != nil {
		t.Fatal(err)
	}
	all := []asked{
		{method: "GET", path: "/v1/jobs?prefix=a"}, {method: "GET", path: "/v1/jobs?region=global&namespace=*"},
		{method: "GET", path: "/v1/jobs?region=nowhere"}, {method: "GET", path: "/v1/jobs?namespace=none"},
		{method: "GET", path: "/v1/jobs?filter=" + url.QueryEscape(`ID == "über"`)}, {method: "GET", path: "/v1/jobs?filter=bad("},
		{method: "GET", path: "/v1/regions"}, {method: "GET", path: "/v1/nothing"},
		{method: "GET", path: "/v1//jobs"}, {method: "GET", path: "/v1/job/../jobs"}, {method: "HEAD", path: "/v1/jobs"},
		{method: "OPTIONS", path: "/v1/jobs"}, {method: "PATCH", path: "/v1/jobs", body: string(job)}, {method: "DELETE", path: "/v1/jobs"},
		{method: "GET", path: "/v1/jobs", header: http.Header{"Accept-Encoding": {"gzip"}}},
		{method: "PUT", path: "/v1/jobs"}, {method: "PUT", path: "/v1/jobs", body: "{"}, {method: "POST", path: "/v1/jobs", body: `{"Job":null}`},
		{method: "PUT", path: "/v1/jobs", body: `{"Job":{"ID":7}}`}, {method: "PUT", path: "/v1/jobs", body: "[]"},
		{method: "PUT", path: "/v1/jobs", body: zipped(t, string(job)), header: http.Header{"Content-Encoding": {"gzip"}}},
		{method: "PUT", path: "/v1/jobs?region=nowhere", body: string(job)}, {method: "PUT", path: "/v1/validate/job", body: "no JSON"},
		{method: "POST", path: "/v1/jobs/parse", body: `{"JobHCL":"job \"x\" {}","Canonicalize":true}`},
		{method: "POST", path: "/v1/jobs/parse", body: `{"JobHCL":"job"}`}, {method: "POST", path: "/v1/search", body: `{"Prefix":"a","Context":"jobs"}`},
		{method: "PUT", path: "/v1/job/none/scale", body: `{"Count":1,"Target":{"Group":"g"}}`}, {method: "PUT", path: "/v1/job/none/scale", body: "{"},
		{method: "PUT", path: "/v1/job/none/revert", body: `{"JobID":"none","JobVersion":3}`}, {method: "PUT", path: "/v1/job/none/dispatch", body: "{}"},
		{method: "PUT", path: "/v1/job/none/periodic/force"}, {method: "PUT", path: "/v1/job/none/evaluate", body: `{"JobID":"none"}`},
		{method: "PUT", path: "/v1/job/none/stable", body: `{"JobID":"none"}`}, {method: "DELETE", path: "/v1/job/none?purge=true"},
		{method: "PUT", path: "/v1/job/", body: "{}"}, {method: "GET", path: "/v1/job/"},
	}
	for _, id := range ids {
		at := "/v1/job/" + url.PathEscape(id)
		for _, of := range []string{"", "/versions?diffs=true", "/allocations", "/evaluations", "/summary", "/scale", "/deployments", "/submission?version=0", "/services"} {
			all = append(all, asked{method: "GET", path: at + of})
		}
		all = append(all, asked{method: "PUT", path: at + "/plan", body: `{"Job":{"ID":"another"}}`}, asked{method: "PUT", path: at + "/dispatch", body: "{}"},
			asked{method: "PUT", path: at + "/periodic/force"}, asked{method: "PUT", path: at + "/revert", body: `{"JobVersion":9}`})
	}
	for _, one := range all {
		if err := e2e.Until(t.Context(), 10*time.Second, one.method+" "+one.path, func() (bool, error) {
			nomads, err := one.send(g.address)
			if err != nil {
				return false, err
			}
			proxys, err := one.send(address) // Nomad may have got on in between
			return proxys == nomads, errors.Join(err, fmt.Errorf("Nomad answers\n%s\nand through the proxy\n%s", nomads, proxys))
		}); err != nil {
			t.Error(err)
		}
	}
	for _, id := range ids {
		g.purge(id)
	}
}

// tools sends registrations as Nomad's page, Terraform's provider and levant do:
// with POST, the source beside the job, an index to go by, a plan before.
func (g *grid) tools(t *testing.T, through *api.Client, address string) {
	parsed, err := through.Jobs().ParseHCL(strings.ReplaceAll(webHCL, "pipeline", "tools"), true)
	if err != nil {
		t.Fatal(err)
	}
	page := func(path string, value any) map[string]any {
		t.Helper()
		body, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.Post(address+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var answer map[string]any
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("POST %s: %s, %v", path, response.Status, err)
		}
		return answer
	}
	source := &api.JobSubmission{Source: webHCL, Format: "hcl2"}
	if plan := page("/v1/job/tools/plan", map[string]any{"Job": parsed, "Diff": true}); plan["Diff"].(map[string]any)["Type"] != "Added" {
		t.Errorf("the page's plan: %v", plan["Diff"])
	}
	page("/v1/jobs", map[string]any{"Job": parsed, "Submission": source})
	g.settled("tools", 3)
	stored := g.job("tools")
	if plan := page("/v1/job/tools/plan", map[string]any{"Job": parsed, "Diff": true}); plan["Diff"].(map[string]any)["Type"] != "None" {
		t.Errorf("the page's plan of the same: %v", plan["Diff"])
	}
	page("/v1/job/tools", map[string]any{"Job": stored, "Submission": source}) // edited in the page as Nomad has it
	plan, _, err := through.Jobs().PlanOpts(parsed, &api.PlanOptions{Diff: true}, nil)
	if err != nil || plan.Diff.Type != "None" {
		t.Errorf("levant's plan: %v, %+v", err, plan)
	}
	options := &api.RegisterOptions{EnforceIndex: true, ModifyIndex: plan.JobModifyIndex, Submission: source, PreserveCounts: true}
	if _, _, err := through.Jobs().RegisterOpts(parsed, options, nil); err != nil {
		t.Errorf("terraform's registration: %v", err)
	}
	if _, _, err := through.Jobs().RegisterOpts(parsed, &api.RegisterOptions{EnforceIndex: true, ModifyIndex: 1}, nil); err == nil || !strings.Contains(err.Error(), api.RegisterEnforceIndexErrPrefix) {
		t.Errorf("a registration by an old index: %v", err)
	}
	if valid, _, err := through.Jobs().Validate(parsed, nil); err != nil || valid.Error != "" || !valid.DriverConfigValidated {
		t.Errorf("validate: %+v, %v", valid, err)
	}
	if version := *g.job("tools").Version; version != 0 {
		t.Errorf("all that made version %d", version)
	}
	bad := gated("tools", 1, map[string]any{"labels": map[string]string{"forbidden": "by test"}})
	if valid, _, err := through.Jobs().Validate(bad, nil); err != nil || !strings.Contains(valid.Error, "forbidden: by test") || len(valid.ValidationErrors) != 1 {
		t.Errorf("validate what policy rejects: %+v, %v", valid, err)
	}
	g.purge("tools")
	bad.Type, bad.Update = new(api.JobTypeBatch), nil
	bad.Periodic = &api.PeriodicConfig{Enabled: new(true), Spec: new("0 0 1 1 *"), SpecType: new(api.PeriodicSpecCron)}
	bad.ID = new("often")
	g.register(bad)
	if out, err := g.nomad(address, "job", "periodic", "force", "-detach", "often"); err == nil || !strings.Contains(out, "forbidden: by test") {
		t.Errorf("force of a job that policy rejects: %v\n%s", err, out)
	}
}
