package shim

import (
	"net/http"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// TestProxy_JudgesWhatNomadWouldDo hides from the judge, behind what Nomad passes
// over, what a write leads to.
func TestProxy_JudgesWhatNomadWouldDo(t *testing.T) {
	for name, one := range map[string]struct {
		path, body string
		holds      func(psg.Workload) bool
	}{
		"a count with more after it":     {"scale", `{"Count":7,"Target":{"Group":"g"}} x`, func(w psg.Workload) bool { return w.Count == 7 }},
		"a count beside what is no text": {"scale", `{"Count":7,"Target":{"Group":"g"},"Tomorrow":{}}`, func(w psg.Workload) bool { return w.Count == 7 }},
		"a child's priority":             {"dispatch", `{"Priority":90} {}`, func(w psg.Workload) bool { return w.Priority == 90 }},
		"what is told to a child":        {"dispatch", `{"Meta":{"who":"me"}}`, func(w psg.Workload) bool { return w.Meta["who"] == "me" }},
	} {
		plans := &planner{}
		b := newBehind(t, plans, true)
		b.stored = bare(managedJob(""))
		if code, answer := b.put(t, "/v1/job/web/"+one.path, one.body); code != http.StatusOK || len(plans.asked) != 1 || !one.holds(plans.asked[0]) {
			t.Errorf("%s: %d %s, judged %+v", name, code, answer, plans.asked)
		}
	}
}

func TestReverted_ReadsTheVersionThatNomadDoes(t *testing.T) {
	plans := &planner{}
	b := newBehind(t, plans, true)
	b.stored = bare(managedJob(""))
	b.versions = `{"Versions":[` + strings.Replace(bare(managedJob(`,"Version":1`)), `"Count":2`, `"Count":7`, 1) + `]}`
	for _, body := range []string{`{"JobID":"web","JobVersion":1}`, `{"JobID":"web","JobVersion":1} x`} {
		plans.asked = nil
		if code, answer := b.put(t, "/v1/job/web/revert", body); code != http.StatusOK || len(plans.asked) != 1 || plans.asked[0].Count != 7 {
			t.Errorf("%s: %d %s, judged %+v; want the version that it goes back to", body, code, answer, plans.asked)
		}
	}
}

// TestProxy_PassesNoWriteForElsewhereThatIsNot names another region or namespace
// where Nomad does not look for it.
func TestProxy_PassesNoWriteForElsewhereThatIsNot(t *testing.T) {
	for _, one := range [][2]string{
		{"/v1/job/web/revert?region=eu", `{"Region":"us","JobID":"web","JobVersion":1}`},
		{"/v1/job/web/dispatch?region=eu", `{"Region":"us"}`},
		{"/v1/job/web/periodic/force", `{"Namespace":"elsewhere"}`},
		{"/v1/job/web/periodic/force", `{"Region":"us"}`},
	} {
		b := newBehind(t, &planner{reject: "everything", places: []string{"default"}}, true)
		b.stored = bare(managedJob(""))
		if code, answer := b.put(t, one[0], one[1]); code != http.StatusBadRequest || len(b.bodies) > 0 {
			t.Errorf("%s %s: %d %s, want it judged", one[0], one[1], code, answer)
		}
	}
}

// TestProxy_LetsNothingPassThatNomadCannotShow has Nomad fail to show the job.
func TestProxy_LetsNothingPassThatNomadCannotShow(t *testing.T) {
	b := newBehind(t, &planner{reject: "everything"}, false)
	b.broken = true
	for path, body := range writes(managedJob("")) {
		if code, answer := b.put(t, path, body); code != http.StatusBadGateway || len(b.bodies) > 0 {
			t.Errorf("%s: %d %s, want it refused", path, code, answer)
		}
	}
}
