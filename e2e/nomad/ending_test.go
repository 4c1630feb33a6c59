package nomad_test

import (
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// TestEnding_IsWhatNomadStopsUntilItsTasksHaveEnded: they have their kill_timeout, and
// Nomad starts another meanwhile.
func TestEnding_IsWhatNomadStopsUntilItsTasksHaveEnded(t *testing.T) {
	g := use(t)
	web := gated("web", 2, classB())
	main := web.TaskGroups[0].Tasks[0]
	main.Config = map[string]any{"command": "/bin/sh", "args": []string{"-c", "trap '' INT TERM; while :; do sleep 0.1; done"}}
	main.KillTimeout = new(5 * time.Second)
	g.register(web)
	g.settled("web", 2)
	first := g.allocs("web")[0].ID
	if _, err := g.client.Allocations().Stop(&api.Allocation{ID: first}, nil); err != nil {
		t.Fatal(err)
	}
	g.until(4*time.Second, "one instance is ending", func() bool { return g.asks("web", psg.Ending) == 1 })
	wants(t, g.exits(0, "alloc", "explain", first), "ending", "Nomad stops it")
	g.until(20*time.Second, "it has ended", func() bool { return g.asks("web", psg.Ending) == 0 })
	g.settled("web", 2)
}
