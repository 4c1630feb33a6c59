package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// slow is an orchestrator that does not answer for one job.
type slow struct {
	director
	job  psg.JobID
	came chan struct{} // closed by the first call for it
}

func (s *slow) Steer(ctx context.Context, one psg.Steering, leads func() error) (bool, error) {
	if one.Job == s.job {
		close(s.came)
		<-ctx.Done()
		return false, ctx.Err()
	}
	return s.director.Steer(ctx, one, leads)
}

// TestSteer_OneJobThatTakesLongDelaysNoOther, whichever is due first.
func TestSteer_OneJobThatTakesLongDelaysNoOther(t *testing.T) {
	w := strayOn(t)
	first := workload("web", "service", 1024)
	nomad := &slow{job: first.ID.JobID(), came: make(chan struct{})}
	others := maxAttended + 1
	asked := false
	w.directed(nomad, "the others are steered", func() bool {
		select {
		case <-nomad.came:
		default:
			return false
		}
		if !asked {
			asked = true
			for i := range others {
				other := workload(fmt.Sprint("other", i), "service", 100)
				w.report(psg.WorkloadChanged{Workload: other}, psg.Asked{Ask: gate(other, fmt.Sprint("o", i), "n1")})
			}
		}
		_, stopped := nomad.told()
		return len(stopped) == others
	})
}

// TestSteer_AJobIsChangedByOneAtATime: what either knows the other may have changed.
func TestSteer_AJobIsChangedByOneAtATime(t *testing.T) {
	w, web := spread3(t)
	job, nomad := web.ID.JobID(), &director{}
	w.steers.open(nomad)
	release, held := w.steers.hold(job)
	if !held {
		t.Fatal("nobody holds the job, and it cannot be held")
	}
	w.during(func() {
		done, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true})
		if err != nil || len(done.Orders) > 0 || len(done.Stays) != 3 || done.Stays[0].Reason != "the job is being changed" {
			t.Errorf("%+v, %v; want nothing moved, and why", done, err)
		}
	})
	w.steers.note(job, time.Now())
	w.steers.due(time.Now().Add(time.Minute))
	w.steers.due(time.Now().Add(time.Hour))
	if w.steers.jobs[job] == nil {
		t.Error("what is being changed is forgotten")
	}
	release()
	w.during(func() {
		if done, err := w.Rebalance(t.Context(), psg.Rebalance{Node: "n1", Empty: true}); err != nil || len(done.Orders) != 1 {
			t.Errorf("%+v, %v; want one moved", done, err)
		}
	})
}

// TestSteer_ComesBackToAJobThatIsBeingChanged once it no longer is.
func TestSteer_ComesBackToAJobThatIsBeingChanged(t *testing.T) {
	w := strayOn(t)
	release, _ := w.steers.hold(workload("web", "service", 1024).ID.JobID())
	nomad, changing, until := &director{}, true, time.Now().Add(settle+2*startsLook)
	w.directed(nomad, "the stray is stopped", func() bool {
		steered, stopped := nomad.told()
		if changing && len(steered) > 0 {
			t.Error("steered while somebody else changes the job")
		}
		if changing && time.Now().After(until) {
			release()
			changing = false
		}
		return len(stopped) == 1
	})
}
