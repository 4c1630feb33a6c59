package policies

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// withCMDB is a policy that reads a data source and how many workloads a node has.
func withCMDB() string {
	return "-- bundle.hcl --\nbundle \"b\" {}\npolicy \"p\" {\n  rego = \"p.rego\"\n}\n" +
		"data \"http\" \"cmdb\" {\n  url      = \"http://127.0.0.1/a\"\n  interval = \"60s\"\n}\n" +
		"-- p.rego --\npackage p\n\ndeny contains \"full\" if count(input.node.workloads) > 1\n\n" +
		"deny contains \"closed\" if data.cmdb[input.node.name] == true\n"
}

func TestFeed_ReadsJSONTextOnce(t *testing.T) {
	set := mustLoad(t, Config{}, withCMDB())
	view := cluster(nil)
	w, name := gpuJob("training", 1), view.Nodes[0].Name
	closed := json.RawMessage(`{"` + name + `": true}`)
	for step, c := range []struct {
		text json.RawMessage
		want []string
	}{{json.RawMessage(`{}`), nil}, {closed, []string{"closed"}}, {closed, []string{"closed"}}, {json.RawMessage(`{} `), nil}} {
		before := set.fed.Load().answers["cmdb"]
		at := view.At.Add(time.Duration(step) * time.Second)
		if err := set.Feed("cmdb", c.text, at); err != nil {
			t.Fatal(err)
		}
		now := set.fed.Load().answers["cmdb"]
		if (now.value == before.value) != (step == 2) || !now.at.Equal(at) {
			t.Errorf("step %d: the value is kept: %t; as of %s, want %s", step, now.value == before.value, now.at, at)
		}
		ruling := rule(t, set, w, view)
		if got := texts(ruling.Why(0)); !slices.Equal(got, c.want) {
			t.Errorf("step %d: denied for %q, want %q", step, got, c.want)
		}
	}
	before := set.fed.Load()
	if err := set.Feed("cmdb", json.RawMessage(`{"a": `), view.At); err == nil || set.fed.Load() != before {
		t.Errorf("half a text is taken in: %v", err)
	}
}

// A reload that comes when a view has just been taken in, and nothing been ruled
// on it, knows what will be.
func TestReload_HasRulingsReadyForTheFirstCycle(t *testing.T) {
	dir := bundleDir(t, withCMDB())
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Feed("cmdb", json.RawMessage(`{}`), cluster(nil).At); err != nil {
		t.Fatal(err)
	}
	one := cluster([]*psg.Workload{gpuJob("batch", 0)})
	two := cluster([]*psg.Workload{gpuJob("batch", 0), gpuJob("inference", 1)})
	old := store.Current()
	w := gpuJob("training", 1)
	rule(t, old, w, one)
	old.table.mu.Lock()
	old.takeIn(t.Context(), old.viewer.of(two, old.fed.Load()))
	old.table.mu.Unlock()
	if err := store.Reload(dir); err != nil {
		t.Fatal(err)
	}
	set := store.Current()
	c := set.classes[w.ID]
	if c == nil || c.kept == nil || c.kept.ruled != set.table.tick {
		t.Fatalf("nothing is ready for %s: %+v", w.ID, c)
	}
	ready := c.kept
	if ruling := rule(t, set, w, two); !ruling.Denied(1).Has(0) || c.kept != ready {
		t.Errorf("denied on %v; made anew: %t", ruling.Denied(1), c.kept != ready)
	}
	if checked := set.Counters().Checked; checked == 0 {
		t.Error("nothing was compared with OPA")
	}
}
