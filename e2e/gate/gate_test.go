package gate

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func TestGate_MainTaskStartsOnlyAfterTheGrant(t *testing.T) {
	g := use(t)
	a := g.run(t, "granted").alloc(t)
	states := a.follow(t)

	main := event(a.runs(t, "main"), api.TaskStarted)
	gate := event(a.info(t).TaskStates["gate"], api.TaskTerminated)
	if gate == nil || gate.ExitCode != 0 || gate.Time > main.Time {
		t.Errorf("main started at %d, the gate ended with %+v", main.Time, gate)
	}
	a.says(t, "gate", "granted on ")

	a.ask(t, psg.Running)
	if output, err := g.nomad.Run(t.Context(), "job", "stop", "-detach", "granted"); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	got := slices.DeleteFunc(states(), func(s psg.State) bool { return s == psg.Ending }) // which may be too short to be seen
	if want := []psg.State{psg.Granted, psg.Running, psg.Released}; !slices.Equal(got, want) {
		t.Errorf("the ledger showed %s, want %s", got, want)
	}
}

// follow collects the states that an ask goes through once it is answered, until
// it is released. The returned function waits for that.
func (a *alloc) follow(t *testing.T) func() []psg.State {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	collected := make(chan []psg.State, 1)
	go func() {
		poll := time.NewTicker(5 * time.Millisecond)
		defer poll.Stop()
		var seen []psg.State
		for ctx.Err() == nil && !slices.Contains(seen, psg.Released) {
			status, err := a.rest.Ask(ctx, a.id)
			answered := err == nil && status.State != psg.Gated
			if answered && (len(seen) == 0 || seen[len(seen)-1] != status.State) {
				seen = append(seen, status.State)
			}
			<-poll.C
		}
		collected <- seen
	}()
	return func() []psg.State { return <-collected }
}

// Training may not join three inference instances. It says so, waits, and is
// granted a card when one of the three goes; its main task finds that card in
// its environment.
func TestGate_DeniedUntilTheReasonGoes(t *testing.T) {
	g := use(t)
	inference := g.runFile(t, "inference", filepath.Join("..", "..", "examples", "inference.nomad.hcl"))
	for _, a := range inference.allocs(t, 3) {
		a.ask(t, psg.Running)
	}

	a := g.run(t, "training").alloc(t)
	a.ask(t, psg.Denied)
	const reason = "runs 3 inference workloads: from 3 on, only preemptible training may join"
	output := a.nomadSays(t, reason, "alloc", "status")
	if state := a.info(t).TaskStates["main"]; state != nil && event(state, api.TaskStarted) != nil {
		t.Errorf("main started while its gate was denied:\n%s", output)
	}

	inference.scale(t, 2)
	granted := a.ask(t, psg.Running)
	if len(granted.Placement.Devices) != 1 {
		t.Fatalf("granted %+v, want one card", granted.Placement.Devices)
	}
	want := "card=" + string(granted.Placement.Devices[0].Device) + " node=" + string(granted.Placement.Node) + " grant=granted\n"
	a.prints(t, want)
}

// scale registers the job with another count. (nomad job scale is refused while
// a deployment lasts.)
func (j *job) scale(t *testing.T, count int) {
	t.Helper()
	found, _, err := j.nomad.Client.Jobs().Info(j.id, nil)
	if err != nil {
		t.Fatal(err)
	}
	found.TaskGroups[0].Count = &count
	if _, _, err := j.nomad.Client.Jobs().Register(found, nil); err != nil {
		t.Fatal(err)
	}
}

// logs is what `nomad alloc logs` prints.
func (a *alloc) logs(t *testing.T, flags ...string) string {
	t.Helper()
	output, err := a.nomad.Run(t.Context(), append(append([]string{"alloc", "logs"}, flags...), a.id)...)
	if err != nil {
		t.Fatalf("nomad alloc logs: %v\n%s", err, output)
	}
	return output
}

// A gate that is queued for want of cards is stopped as fast as Nomad itself
// can tell: its client reports every 200 ms.
func TestGate_StopsAtOnceWhileItWaits(t *testing.T) {
	g := use(t)
	a := g.run(t, "too-many-cards").alloc(t)
	a.ask(t, psg.Queued)
	a.says(t, "gate", "queued: ")

	began := time.Now()
	if _, err := g.nomad.Client.Allocations().Stop(&api.Allocation{ID: a.id}, nil); err != nil {
		t.Fatal(err)
	}
	await(t, 10*time.Second, "the allocation is complete", func() (bool, error) {
		status := a.info(t).ClientStatus
		return status == api.AllocClientStatusComplete || status == api.AllocClientStatusFailed, nil
	})
	took := time.Since(began)
	t.Logf("stopped in %s", took.Round(time.Millisecond))
	if took > time.Second {
		t.Errorf("stopping a gated allocation took %s", took)
	}
	if status := a.info(t).ClientStatus; status != api.AllocClientStatusComplete {
		t.Errorf("the stopped allocation is %s", status)
	}
	a.ask(t, psg.Released)
}

// An error in the stanza names the field, where the user looks.
func TestGate_WrongStanzaNamesItsField(t *testing.T) {
	g := use(t)
	for job, field := range map[string]string{
		"unknown-field":  `comand`,
		"ill-typed":      `preemptible`,
		"wrong-duration": `deadline`,
	} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			a := g.run(t, job).alloc(t)
			output := a.nomadSays(t, field, "alloc", "status")
			for line := range strings.Lines(output) {
				if strings.Contains(line, field) {
					t.Log(strings.TrimSpace(line))
				}
			}
		})
	}
}
