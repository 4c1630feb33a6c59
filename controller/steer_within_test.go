package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// mute is an orchestrator that never answers.
type mute struct{ director }

func (*mute) Steer(ctx context.Context, _ psg.Steering, _ func() error) (bool, error) {
	<-ctx.Done()
	return true, ctx.Err()
}

func (*mute) Stop(ctx context.Context, _ psg.AllocID) error { <-ctx.Done(); return ctx.Err() }

func TestSteer_DoesNotWaitForAnAnswerWithoutEnd(t *testing.T) {
	to := impatient{&mute{}, time.Millisecond}
	if changed, err := to.Steer(t.Context(), psg.Steering{}, nil); !changed || !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("Steer = %t, %v; want that it may have been changed, and %v", changed, err, psg.ErrUnavailable)
	}
	if err := to.Stop(t.Context(), "a"); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("Stop = %v, want %v", err, psg.ErrUnavailable)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := to.Stop(over, "a"); !errors.Is(err, context.Canceled) || errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("Stop for one that left = %v, want %v", err, context.Canceled)
	}
	if healed, err := to.Heal(t.Context(), psg.JobID{}); !healed || err != nil {
		t.Errorf("Heal = %t, %v", healed, err)
	}
}
