package shim

import (
	"net/http"
	"strings"
	"testing"
)

func TestProxy_PassesWhatControllersPlaceNothingFor(t *testing.T) {
	plans := &planner{outside: true}
	b := newBehind(t, plans, true)
	for _, path := range []string{"/v1/jobs?namespace=other", "/v1/job/web", "/v1/job/web/plan", "/v1/validate/job"} {
		code, answer := b.put(t, path, managedJob(""))
		if code != http.StatusOK || len(b.bodies) == 0 || b.bodies[len(b.bodies)-1] != managedJob("") {
			t.Fatalf("%s: %d %s; sent on as %v", path, code, answer, b.bodies)
		}
		for _, want := range []string{"nomad's own", "no jobs are placed in namespace"} {
			if !strings.Contains(answer, want) {
				t.Errorf("%s: %s lacks %q", path, answer, want)
			}
		}
	}
	b.stored = strings.TrimSuffix(strings.TrimPrefix(managedJob(""), `{"Job":`), `,"PolicyOverride":true}`)
	for path, body := range map[string]string{"/v1/job/web/scale": `{"Count":3,"Target":{"Group":"g"}}`, "/v1/job/web/dispatch": `{}`} {
		if code, answer := b.put(t, path, body); code != http.StatusOK || b.bodies[len(b.bodies)-1] != body {
			t.Errorf("%s: %d %s; sent on as %v", path, code, answer, b.bodies)
		}
	}
	if plans.abandoned > 0 {
		t.Error("gave back what was never planned")
	}
}
