package shim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

var errDown = fmt.Errorf("no controller: %w", psg.ErrUnavailable)

// writes are those that PSG has a say in, each with a body.
func writes(job string) map[string]string {
	return map[string]string{
		"/v1/jobs": job, "/v1/job/": job, "/v1/job/web": job, "/v1/job/web/plan": job, "/v1/validate/job": job,
		"/v1/job/web/scale": `{"Count":3,"Target":{"Group":"g"}}`, "/v1/job/web/dispatch": `{"Meta":{}}`,
		"/v1/job/web/revert": `{"JobID":"web","JobVersion":1}`, "/v1/job/web/periodic/force": "",
	}
}

// odd are jobs that PSG could not take.
func odd() map[string]string {
	return map[string]string{
		"one like any other":         managedJob(""),
		"a stanza that means naught": strings.Replace(managedJob(""), `"count":1`, `"cuont":1`, 1),
		"a priority beyond all":      managedJob(`,"Priority":999999`),
		"a null group":               strings.Replace(managedJob(""), `"TaskGroups":[`, `"TaskGroups":[null,`, 1),
		"a key that stands twice":    managedJob(`,"ID":"web"`),
		"more after it":              managedJob("") + " {}",
		"a held one":                 managedJob(`,"Constraints":[{"LTarget":"${meta.psg_hold}","RTarget":"never"}]`),
		"a type that Nomad refuses":  managedJob(`,"Type":"srevice"`),
	}
}

// bare is the job of a registration.
func bare(request string) string {
	return strings.TrimSuffix(strings.TrimPrefix(request, `{"Job":`), `,"PolicyOverride":true}`)
}

// TestProxy_LeavesAloneWhatIsOutside sends jobs of any kind in a namespace that is
// none of PSG's, by all ways to know it.
func TestProxy_LeavesAloneWhatIsOutside(t *testing.T) {
	listed := func(c *ProxyConfig) { c.Namespaces = []string{"ml"} }
	told := func(*ProxyConfig) {}
	for way, one := range map[string]struct {
		plans  *planner
		config func(*ProxyConfig)
	}{
		"the proxy's list":                       {&planner{reject: "everything"}, listed},
		"the proxy's list, controllers away":     {&planner{err: errDown}, listed},
		"the controllers' list":                  {&planner{places: []string{"ml"}, reject: "everything"}, told},
		"verdicts of controllers without a list": {&planner{outside: true}, told},
	} {
		for name, job := range odd() {
			if one.plans.outside && name != "one like any other" && name != "a held one" {
				continue // they cannot be asked about these
			}
			b := newBehind(t, one.plans, true)
			b.config(one.config)
			b.stored = bare(managedJob(""))
			for path, body := range writes(job) {
				code, answer := b.put(t, path, body)
				if code != http.StatusOK || len(b.bodies) == 0 || b.bodies[len(b.bodies)-1] != body {
					t.Errorf("%s, %s: %s: %d %s; sent on as %v", way, name, path, code, answer, b.bodies)
				}
				if strings.Contains(body, `"Job"`) && !strings.Contains(answer, "no jobs are placed in namespace") {
					t.Errorf("%s, %s: %s: %s does not say so", way, name, path, answer)
				}
			}
		}
		if one.plans.abandoned > 0 {
			t.Errorf("%s: gave back what was never planned", way)
		}
	}
}

func TestProxy_SaysWhatBecomesOfAHeldJobOutside(t *testing.T) {
	b := newBehind(t, &planner{}, true)
	b.config(func(c *ProxyConfig) { c.Namespaces = []string{"ml"} })
	_, answer := b.put(t, "/v1/jobs", odd()["a held one"])
	if !strings.Contains(answer, "nobody takes off its hold") || strings.Contains(answer, "places it alone") {
		t.Errorf("told %s", answer)
	}
}

// TestProxy_LeavesAloneWhatItDoesNotManage sends what is none of PSG's, and could
// not be read, with no controller there.
func TestProxy_LeavesAloneWhatItDoesNotManage(t *testing.T) {
	zipped := new(bytes.Buffer)
	zip := gzip.NewWriter(zipped)
	fmt.Fprint(zip, managedJob(""))
	zip.Close()
	for name, job := range odd() {
		if name != "a held one" {
			b := newBehind(t, &planner{err: errDown}, true)
			body := strings.ReplaceAll(job, `"Driver":"psg"`, `"Driver":"exec"`)
			b.stored = bare(strings.ReplaceAll(managedJob(""), `"Driver":"psg"`, `"Driver":"exec"`))
			for path, body := range writes(body) {
				if code, answer := b.put(t, path, body); code != http.StatusOK || b.bodies[len(b.bodies)-1] != body {
					t.Errorf("%s: %s: %d %s; sent on as %v", name, path, code, answer, b.bodies)
				}
			}
		}
	}
	b := newBehind(t, &planner{err: errDown}, true)
	for name, body := range map[string]string{
		"compressed": zipped.String(), "no JSON": "{", "nothing": "", "a wrong type": managedJob(`,"TaskGroups":7`), "no ID": `{"Job":{"TaskGroups":[{"Tasks":[{"Driver":"psg"}]}]}}`,
	} {
		if code, answer := b.put(t, "/v1/jobs", body); code != http.StatusOK || b.bodies[len(b.bodies)-1] != body {
			t.Errorf("%s: %d %s; sent on as %v", name, code, answer, b.bodies)
		}
	}
	b.stored = `{"ID":"web","Priority":"of a later make","TaskGroups":[{"Name":"g","Tasks":[{"Driver":"exec"}]}]}`
	if code, answer := b.put(t, "/v1/job/web/scale", `{"Count":1}`); code != http.StatusOK {
		t.Errorf("a job that only Nomad can read: %d %s", code, answer)
	}
}

func TestProxy_ReadsAJobAsNomadDoes(t *testing.T) {
	for name, body := range map[string]string{
		"more after it":           managedJob("") + " {}",
		"a key that stands twice": managedJob(`,"ID":"web"`),
		"the last of two jobs":    `{"job":{"ID":"web"},` + strings.TrimPrefix(managedJob(""), "{"),
	} {
		b := newBehind(t, &planner{}, false)
		if code, answer := b.put(t, "/v1/jobs", body); code != http.StatusBadRequest || len(b.bodies) > 0 {
			t.Errorf("%s: %d %s, sent on %v; want it refused, for Nomad would take it", name, code, answer, b.bodies)
		}
	}
	b := newBehind(t, &planner{reject: "everything"}, true)
	if code, answer := b.put(t, "/v1/jobs?region=eu", strings.Replace(managedJob(""), `{"Job"`, `{"Region":"us","Job"`, 1)); code != http.StatusOK {
		t.Errorf("a request whose body names another region, which goes before the query's: %d %s", code, answer)
	}
	b.config(func(c *ProxyConfig) { c.Namespaces = []string{"ml"} })
	b.stored = bare(managedJob(""))
	for _, path := range []string{"/v1/job/web/revert", "/v1/job/web/dispatch"} {
		if code, answer := b.put(t, path, `{"Namespace":"ml","JobID":"web","JobVersion":1}`); code != http.StatusBadRequest {
			t.Errorf("%s of a namespace that the body names: %d %s, want it judged", path, code, answer)
		}
	}
	if code, answer := b.put(t, "/v1/job/web/scale", `{"Namespace":"ml","Count":1}`); code != http.StatusOK {
		t.Errorf("a scale, where Nomad reads no namespace from the body: %d %s", code, answer)
	}
}

// TestProxy_RegistersTheSameWhetherAControllerAnswersOrNot has the controllers go
// away in between: a job's form must not go to and fro.
func TestProxy_RegistersTheSameWhetherAControllerAnswersOrNot(t *testing.T) {
	for name, one := range map[string]struct {
		places []string // the controllers'
		fixed  []string // the proxy's
		path   string
	}{
		"inside":              {nil, nil, "/v1/jobs"},
		"inside a list":       {[]string{"ml"}, nil, "/v1/jobs?namespace=ml"},
		"outside":             {[]string{"ml"}, nil, "/v1/jobs"},
		"inside the proxy's":  {nil, []string{"ml"}, "/v1/jobs?namespace=ml"},
		"outside the proxy's": {nil, []string{"ml"}, "/v1/jobs"},
	} {
		plans := &planner{places: one.places}
		b := newBehind(t, plans, false)
		b.config(func(c *ProxyConfig) { c.Namespaces = one.fixed })
		b.put(t, one.path, managedJob(""))
		plans.err = errDown
		b.serves.scope.said.next = time.Time{}
		b.put(t, one.path, managedJob(""))
		if b.bodies[0] != b.bodies[1] {
			t.Errorf("%s: with controllers\n%s\nand without\n%s", name, b.bodies[0], b.bodies[1])
		}
	}
}

func TestProxy_KnowsNotWhereControllersPlaceJobs(t *testing.T) {
	plans := &planner{err: errDown, hint: psg.Hint{"n1": 2}}
	b := newBehind(t, plans, false)
	code, answer := b.put(t, "/v1/jobs", managedJob(""))
	if code != http.StatusOK || b.bodies[0] != managedJob("") || !strings.Contains(answer, "not known whether jobs are placed") {
		t.Errorf("%d %s, sent %v; want it as it was sent", code, answer, b.bodies)
	}
	b.config(func(c *ProxyConfig) { c.FailClosed = true })
	if code, answer := b.put(t, "/v1/jobs", managedJob("")); code != http.StatusServiceUnavailable {
		t.Errorf("closed: %d %s", code, answer)
	}
	b.config(func(c *ProxyConfig) { c.FailClosed = false })
	reg, err := readRegistration([]byte(managedJob("")), "default")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := json.Marshal(Steer(reg.asked, map[string]psg.Hint{"g": {"n1": 2}}))
	if err != nil {
		t.Fatal(err)
	}
	b.stored = string(stored)
	if b.put(t, "/v1/jobs", managedJob("")); !strings.Contains(b.bodies[1], markValue) || !strings.Contains(b.bodies[1], grantSource) {
		t.Errorf("a job that PSG steers was registered as %s; want it as it was", b.bodies[1])
	}
}

func TestProxy_FollowsItsOwnListWhereControllersHaveAnother(t *testing.T) {
	b := newBehind(t, &planner{outside: true}, true)
	b.config(func(c *ProxyConfig) { c.Namespaces = []string{"ml"} })
	code, answer := b.put(t, "/v1/jobs?namespace=ml", managedJob(`,"Constraints":[{"LTarget":"${meta.psg_hold}","RTarget":"never"}]`))
	if code != http.StatusOK || !strings.Contains(answer, "the proxy's -namespaces") || !strings.Contains(b.bodies[0], grantSource) || !strings.Contains(b.bodies[0], holdAttribute) {
		t.Errorf("%d %s, sent %v; want it equipped, held, and told", code, answer, b.bodies)
	}
}

func TestProxy_PassesWhatIsTooLargeToReadIfItIsOutside(t *testing.T) {
	b := newBehind(t, &planner{places: []string{"ml"}}, true)
	huge := strings.Repeat(" ", maxInput) + managedJob("")
	if code, answer := b.put(t, "/v1/jobs?namespace=other", huge); code != http.StatusOK || b.bodies[0] != huge {
		t.Errorf("%d %s", code, answer)
	}
	if code, _ := b.put(t, "/v1/jobs?namespace=ml", huge); code != http.StatusRequestEntityTooLarge {
		t.Errorf("inside: %d", code)
	}
}
