package policies

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

// spoil makes the columnar form of a set's first policy wrong for a workload.
func spoil(t *testing.T, set *Set, w *psg.Workload) {
	t.Helper()
	program := set.classes[w.ID].parts[0].program
	if program == nil {
		t.Fatal("the policy is not decided by columns")
	}
	program.denials[0].when = set.table.conjunction(nil) // it denies every node
	combineAnew(set, w)
}

func TestRule_QuarantinesWhatDiffersFromOPA(t *testing.T) {
	var log bytes.Buffer
	set := mustLoad(t, Config{Sample: 1, Log: slog.New(slog.NewTextHandler(&log, nil))}, one("deny contains \"no\" if input.node.name == \"none\"\n"))
	w, view := gpuJob("training", 1), cluster(nil, nil)
	if ruling := rule(t, set, w, view); ruling.Denied(2).Count() != 0 {
		t.Fatal("denied though nothing is wrong")
	}
	spoil(t, set, w)
	if ruling := rule(t, set, w, view); ruling.Denied(2).Count() != 0 {
		t.Error("the wrong decision stands")
	}
	if tier := Tier(set.policies[0].tier.Load()); tier != Compiled {
		t.Errorf("the policy is in %s", tier)
	}
	if !strings.Contains(log.String(), "policy quarantined") || set.Counters().Differ != 1 {
		t.Errorf("%+v, log %q", set.Counters(), log.String())
	}
}

func TestRule_ChecksAShareOfPairs(t *testing.T) {
	set := mustLoad(t, Config{Sample: 10}, one("deny contains \"no\" if input.node.name == \"none\"\n"))
	view := cluster(nil, nil, nil, nil)
	for range 10 {
		rule(t, set, gpuJob("training", 1), view)
	}
	if got := set.Counters(); got != (Counters{Pairs: 40, Checked: 4}) {
		t.Errorf("%+v", got)
	}
}

func TestStore_RollsBackAndKeepsWhatWasFed(t *testing.T) {
	source := `
data "http" "src" {
  url      = "http://127.0.0.1/"
  interval = "10s"
}
`
	text := func(reason string) string {
		return strings.Replace(one("deny contains \""+reason+"\" if data.src.on\n"), "bundle \"b\" {}\n", "bundle \"b\" {}\n"+source, 1)
	}
	store, err := NewStore(bundleDir(t, text("old")), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Rollback(); err == nil {
		t.Error("rolled back to nothing")
	}
	view := cluster(nil)
	said := func() []string { return texts(rule(t, store.Current(), gpuJob("training", 1), view).Why(0)) }
	if err := store.Reload(bundleDir(t, text("new"))); err != nil {
		t.Fatal(err)
	}
	if err := store.Feed(store.Sources()[0], map[string]any{"on": true}, view.At); err != nil {
		t.Fatal(err)
	}
	if got := said(); !slices.Equal(got, []string{"new"}) {
		t.Errorf("denied for %q", got)
	}
	for _, want := range []string{"old", "new"} {
		if err := store.Rollback(); err != nil {
			t.Fatal(err)
		}
		if got := said(); !slices.Equal(got, []string{want}) {
			t.Errorf("denied for %q, want %q", got, want)
		}
	}
	if err := store.Reload(t.TempDir()); err == nil || !slices.Equal(said(), []string{"new"}) {
		t.Errorf("after a bad bundle: %v, %q", err, said())
	}
}

func TestReload_RehearsesOnTheLastSnapshot(t *testing.T) {
	dir := bundleDir(t, one("deny contains \"no\" if input.node.name == \"n000\"\n"))
	store, err := NewStore(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	w := gpuJob("training", 1)
	rule(t, store.Current(), w, cluster([]*psg.Workload{w}, nil))
	if err := store.Reload(dir); err != nil {
		t.Fatal(err)
	}
	if got := store.Current().Counters(); got.Checked != 1 || got.Differ != 0 || len(store.Current().table.atoms) == 0 {
		t.Errorf("%+v, %d conditions made", got, len(store.Current().table.atoms))
	}
}

// A change of one field of one node loads what reads that field, on that row.
func TestTable_LoadsOnlyWhatChanged(t *testing.T) {
	set := mustLoad(t, Config{Sample: -1}, one(`
deny contains "hot" if input.node.telemetry.steal.p95 > 3

deny contains "busy" if count([w | some w in input.node.workloads; w.kind == "training"]) > 1

deny contains sprintf("rack %s", [input.node.attributes.rack]) if input.node.attributes.rack != "r1"
`))
	s := cluster(nil, nil, nil, nil)
	w := gpuJob("training", 1)
	rule(t, set, w, s)
	before := set.table.updates
	next := *s
	next.Nodes = slices.Clone(s.Nodes)
	next.Nodes[2].Telemetry = &psg.Telemetry{Metrics: map[string]psg.Stats{"steal": {P95: 9}}}
	ruling := rule(t, set, w, &next)
	if got := slices.Collect(ruling.Denied(4).All()); !slices.Equal(got, []int{2}) {
		t.Errorf("denied on rows %v", got)
	}
	if loaded := set.table.updates - before; loaded != 1 {
		t.Errorf("%d cells were loaded", loaded)
	}
}
