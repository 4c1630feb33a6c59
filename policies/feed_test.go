package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	if err := store.Feed(store.Sources()[0], json.RawMessage(`{}`), cluster(nil).At); err != nil {
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

// ranged is a policy that reads a source whose arguments are given.
func ranged(arguments string) string {
	return one("deny contains data.load if input.node.name\n") + "-- bundle.hcl --\nbundle \"b\" {}\npolicy \"p\" {\n  rego = \"p.rego\"\n}\n" + arguments
}

const (
	askLoad = `data "prometheus" "load" {
  address  = "http://127.0.0.1:9090"
  query    = "load"
  key      = "node"
  range    = "60s"
  step     = "10s"
  interval = "60s"
}
`
	noAnswer = `data "load" has had no answer yet`
)

// An answer to another question says nothing of this one, whatever its name.
func TestReload_KeepsAnswersToTheSameQuestion(t *testing.T) {
	for change, kept := range map[string]bool{
		``: true, `interval = "60s"/interval = "30s"`: true, `interval = "60s"/interval = "60s"
  on_stale = "ignore"`: true, `interval = "60s"/interval = "60s"
  timeout  = "2s"`: true, `interval = "60s"/interval = "60s"
  stale_after = "70s"`: true,
		`9090/9091`: false, `"load"
  key/"up"
  key`: false, `"node"/"instance"`: false, `range    = "60s"/range    = "120s"`: false, `step     = "10s"/step     = "20s"`: false,
		"  range    = \"60s\"\n  step     = \"10s\"\n/": false,
	} {
		t.Run(change, func(t *testing.T) {
			dir := bundleDir(t, ranged(askLoad))
			store, err := NewStore(dir, Config{})
			if err != nil {
				t.Fatal(err)
			}
			w, view := gpuJob("training", 1), cluster(nil)
			asked := store.Sources()[0]
			if err := store.Feed(asked, "fed", view.At); err != nil {
				t.Fatal(err)
			}
			cut := strings.LastIndex(change, "/")
			if change == "" {
				writeFiles(t, dir, "-- more.rego --\npackage more\n")
			} else {
				writeFiles(t, dir, ranged(strings.Replace(askLoad, change[:cut], change[cut+1:], 1)))
			}
			if err := store.Reload(dir); err != nil {
				t.Fatal(err)
			}
			want := noAnswer
			if kept {
				want = "fed"
			}
			if got := rule(t, store.Current(), w, view).Why(0)[0].Text; got != want {
				t.Errorf("after the reload: %s, want %s", got, want)
			}
			// What was asked before the reload, and answered after.
			if err := store.Feed(asked, "late", view.At.Add(time.Second)); kept != (err == nil) || !kept && !errors.Is(err, psg.ErrUnknown) {
				t.Errorf("fed late: %v", err)
			}
			if kept {
				want = "late"
			}
			if got := rule(t, store.Current(), w, view).Why(0)[0].Text; got != want {
				t.Errorf("fed late: %s, want %s", got, want)
			}
		})
	}
}

func TestFeed_KeepsTheLaterAnswer(t *testing.T) {
	set := mustLoad(t, Config{}, ranged(askLoad))
	w, view := gpuJob("training", 1), cluster(nil)
	for _, step := range []struct {
		text, want string
		after      time.Duration
	}{{"second", "second", 2}, {"first", "second", 1}, {"again", "again", 2}, {"third", "third", 3}, {"second", "third", 2}} {
		if err := set.Feed("load", step.text, view.At.Add(step.after)); err != nil {
			t.Fatal(err)
		}
		if got := rule(t, set, w, view).Why(0)[0].Text; got != step.want {
			t.Errorf("after %q: %q, want %q", step.text, got, step.want)
		}
	}
}

// Of many that feed at a time, in a store that is reloaded meanwhile, the one with
// the latest time counts.
func TestFeed_KeepsTheLatestOfMany(t *testing.T) {
	dir := bundleDir(t, ranged(askLoad))
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	source, view := store.Sources()[0], cluster(nil)
	const feeders, each = 4, 200
	var feeding sync.WaitGroup
	for feeder := range feeders {
		feeding.Go(func() {
			for i := range each {
				n := i*feeders + feeder
				if err := store.Feed(source, n, view.At.Add(time.Duration(n))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 20 {
		writeFiles(t, dir, fmt.Sprintf("-- more.rego --\npackage more\n\n# %d\n", i))
		if err := errors.Join(store.Reload(dir), store.Rollback()); err != nil {
			t.Error(err)
		}
	}
	feeding.Wait()
	if got := store.Current().fed.Load().answers["load"]; got.value.String() != "799" || !got.at.Equal(view.At.Add(799)) {
		t.Errorf("%v, as of %s", got.value, got.at)
	}
}

// A rollback finds answers that are no older than those before it.
func TestRollback_KeepsTheLaterAnswer(t *testing.T) {
	dir := bundleDir(t, ranged(askLoad))
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	view, first := cluster(nil), store.Current()
	writeFiles(t, dir, "-- more.rego --\npackage more\n")
	if err := store.Reload(dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Feed("load", "later", view.At.Add(1)), store.Current().Feed("load", "earlier", view.At), store.Rollback()); err != nil {
		t.Fatal(err)
	}
	if got := rule(t, store.Current(), gpuJob("training", 1), view).Why(0)[0].Text; got != "later" {
		t.Error(got)
	}
}

// A bundle that is loaded twice has not replaced itself.
func TestRollback_ReturnsToAnotherBundle(t *testing.T) {
	dir := bundleDir(t, ranged(askLoad))
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	good := store.Current().Digest()
	if err := store.Reload(dir); err != nil {
		t.Fatal(err)
	}
	if err := store.Rollback(); err == nil {
		t.Error("the bundle is rolled back to itself")
	}
	writeFiles(t, dir, "-- p.rego --\npackage p\n\ndeny contains \"everything\"\n")
	for range 3 {
		if err := store.Reload(dir); err != nil {
			t.Fatal(err)
		}
	}
	bad := store.Current().Digest()
	for _, want := range []string{good, bad, good} {
		if err := store.Rollback(); err != nil {
			t.Fatal(err)
		}
		if got := store.Current().Digest(); got != want {
			t.Errorf("the bundle %s is in force, not %s", got, want)
		}
	}
}
