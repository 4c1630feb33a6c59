package gate

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// With fail = "closed" a gate waits for as long as no controller answers, and
// says so; one that comes back finds it.
func TestAbsence_ClosedGateWaits(t *testing.T) {
	g := useAlone(t)
	g.crash(t)
	a := g.run(t, "granted").alloc(t)
	a.says(t, "gate", "waiting: no controller answers")
	a.says(t, "gate", `waiting: no controller has answered for 1s (fail = "closed")`)
	if state := a.info(t).TaskStates["main"]; state.State != "pending" {
		t.Errorf("main is %s without a decision", state.State)
	}
	g.returns(t)
	a.runs(t, "main")
	a.says(t, "gate", "granted on ")
}

// A controller that is killed knows everything when it is back: what it granted
// is still held, what it queued still waits, with the same answer, and is
// granted when there is room.
func TestAbsence_KilledControllerForgetsNothing(t *testing.T) {
	g := useAlone(t)
	holder := g.run(t, "holds-cards").alloc(t)
	held := holder.ask(t, psg.Running)
	waiting := g.run(t, "wants-card").alloc(t)
	queued := waiting.ask(t, psg.Queued)
	position, err := g.rest.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	g.crash(t)
	g.returns(t)
	back, err := g.rest.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if back.Epoch <= position.Epoch || back.Sequence <= position.Sequence {
		t.Errorf("leads epoch %d at record %d, before it was %d at %d", back.Epoch, back.Sequence, position.Epoch, position.Sequence)
	}
	if got := holder.ask(t, psg.Running); got.Sequence != held.Sequence || len(got.Placement.Devices) != 4 {
		t.Errorf("holds %+v by record %d, before %+v by %d", got.Placement, got.Sequence, held.Placement, held.Sequence)
	}
	if got := waiting.ask(t, psg.Queued); got.Refusal.Summary != queued.Refusal.Summary || !got.Ask.At.Equal(queued.Ask.At) {
		t.Errorf("queued since %s: %s; before since %s: %s", got.Ask.At, got.Refusal.Summary, queued.Ask.At, queued.Refusal.Summary)
	}
	g.stop(t, "holds-cards")
	waiting.runs(t, "main")
}

// With fail = "open" a gate starts what Nomad placed once fail_after is over,
// and the controller is told when there is one.
func TestAbsence_OpenGateStartsAndReports(t *testing.T) {
	if shared == nil {
		t.Skip(skipped)
	}
	t.Parallel()
	dir, err := os.MkdirTemp(filepath.Dir(shared.nomad.Dir), "open-") // looked through, and removed, with all the rest
	if err != nil {
		t.Fatal(err)
	}
	g, err := newGrid(dir, "o", shared.nomad.Binary, shared.nomad.Plugins, map[string]any{"fail": "open", "fail_after": "2s"})
	if err != nil {
		t.Fatal(err)
	}
	g.watched(t)
	t.Cleanup(func() {
		if err := g.end(); err != nil {
			t.Error(err)
		}
	})
	if err := g.nomad.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := g.run(t, "granted").alloc(t)
	a.runs(t, "main")
	a.says(t, "gate", `started without a decision: no controller has answered for 2s (fail = "open")`)

	g.returns(t)
	status := a.ask(t, psg.Running)
	if !status.Ask.Started || status.Placement == nil {
		t.Errorf("the controller has %+v", status)
	}
	a.says(t, "gate", "reported to the controller, which says: granted on ")
}

// crash kills the controller as a power cut would.
func (g *grid) crash(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { g.returns(t) }) // for the tests that follow
	if err := g.controller.Stop(syscall.SIGKILL, 5*time.Second); err != nil {
		t.Fatal(err)
	}
}

// returns starts the controller where it is not running.
func (g *grid) returns(t *testing.T) {
	t.Helper()
	if g.controller.Running() {
		return
	}
	if err := g.controller.Start(context.Background()); err != nil {
		t.Error(err)
	}
}
