package driver

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

var errEnough = errors.New("enough")

// follow returns the next n messages of a feed.
func follow(t *testing.T, f *feed, n int) []string {
	t.Helper()
	var got []string
	err := f.follow(t.Context(), func(e Event) error {
		got = append(got, e.Message)
		if len(got) == n {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	return got
}

func TestFeed_KeepsEventsForTheFirstFollowerAndDropsTheOldest(t *testing.T) {
	var f feed
	for i := range backlog + 3 {
		f.emit(Event{Message: fmt.Sprint(i)})
	}
	got := follow(t, &f, backlog)
	if got[0] != "3" || got[backlog-1] != fmt.Sprint(backlog+2) {
		t.Errorf("from %s to %s", got[0], got[backlog-1])
	}
}

func TestFeed_TellsTheNextFollowerWhatTheLastCouldNotBeTold(t *testing.T) {
	var f feed
	for _, m := range []string{"1", "2", "3"} {
		f.emit(Event{Message: m})
	}
	follow(t, &f, 2) // which fails to send "2"
	f.emit(Event{Message: "4"})
	if got := follow(t, &f, 3); !slices.Equal(got, []string{"2", "3", "4"}) {
		t.Errorf("got %q", got)
	}
}

func TestFeed_TellsEveryFollower(t *testing.T) {
	var f feed
	first := make(chan string, 1)
	joined := make(chan struct{})
	go func() {
		_ = f.follow(t.Context(), func(e Event) error {
			if e.Message == "hello" {
				close(joined)
				return nil
			}
			first <- e.Message
			return errEnough
		})
	}()
	f.emit(Event{Message: "hello"})
	<-joined
	second := make(chan string, 1)
	go func() {
		_ = f.follow(t.Context(), func(e Event) error {
			second <- e.Message
			return errEnough
		})
	}()
	for done := 0; done < 2; {
		f.emit(Event{Message: "both"})
		select {
		case m := <-first:
			if m != "both" {
				t.Errorf("first got %q", m)
			}
			first, done = nil, done+1
		case m := <-second:
			if m != "both" {
				t.Errorf("second got %q", m)
			}
			second, done = nil, done+1
		default:
		}
	}
}
