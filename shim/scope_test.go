package shim

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/psgrid/psg"
)

// TestScope_WaitsOnceForControllersThatHang has many ask at once where nobody
// answers them.
func TestScope_WaitsOnceForControllersThatHang(t *testing.T) {
	const hang = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		s := newScope(nil, func(context.Context) ([]string, error) {
			asked++
			time.Sleep(hang)
			return nil, errDown
		})
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				start := time.Now()
				if _, err := s.holds(t.Context(), "ml"); !errors.Is(err, psg.ErrUnavailable) || time.Since(start) > hang {
					t.Errorf("%v after %s, want that nobody could be asked within %s", err, time.Since(start), hang)
				}
			})
		}
		callers.Wait()
		if asked != 1 {
			t.Errorf("they were asked %d times", asked)
		}
	})
}

func TestScope_GoesByWhatWasSaidLastWhileControllersHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hang time.Duration
		places := []string{"ml"}
		s := newScope(nil, func(context.Context) ([]string, error) {
			time.Sleep(hang)
			return places, nil
		})
		if in, err := s.holds(t.Context(), "default"); in || err != nil {
			t.Fatalf("%t %v", in, err)
		}
		time.Sleep(scopeFor)
		hang, places = time.Minute, []string{"ml", "default"}
		first := make(chan bool)
		go func() {
			in, err := s.holds(t.Context(), "default")
			first <- in && err == nil
		}()
		synctest.Wait()
		start := time.Now()
		if in, err := s.holds(t.Context(), "ml"); !in || err != nil || time.Since(start) > 0 {
			t.Errorf("%t %v after %s, want what was said last, at once", in, err, time.Since(start))
		}
		if !<-first {
			t.Error("a namespace that was added is not known to who asked")
		}
		if in, err := s.holds(t.Context(), "default"); !in || err != nil {
			t.Errorf("%t %v; want the namespace that was added", in, err)
		}
	})
}

func TestScope_KeepsNothingOfACallerWhoLeft(t *testing.T) {
	s := newScope(nil, func(ctx context.Context) ([]string, error) {
		if ctx.Err() != nil {
			return nil, errDown
		}
		return []string{"ml"}, nil
	})
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := s.holds(gone, "ml"); !errors.Is(err, psg.ErrUnavailable) {
		t.Errorf("who left is told %v", err)
	}
	if in, err := s.holds(t.Context(), "ml"); !in || err != nil {
		t.Errorf("the next is told %t %v", in, err)
	}
}
