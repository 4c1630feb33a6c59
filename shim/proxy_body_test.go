package shim

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
)

// hung is a planner that answers once it may.
type hung struct {
	planner
	asked, may chan struct{}
}

func (h *hung) Plan(ctx context.Context, request psg.RequestID, workloads []psg.Workload) ([]psg.Verdict, error) {
	h.asked <- struct{}{}
	<-h.may
	return h.planner.Plan(ctx, request, workloads)
}

// uncounted waits until nothing is counted any more.
func (b *behind) uncounted(t *testing.T) {
	t.Helper()
	poll, late := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer poll.Stop()
	for b.serves.bodies.Load() != 0 {
		select {
		case <-poll.C:
		case <-late:
			t.Fatalf("%d bytes are still counted", b.serves.bodies.Load())
		}
	}
}

// What is too large to be read passes while it still comes; what came has been sent on.
func TestProxy_CountsNothingOfWhatHasPassed(t *testing.T) {
	b := newBehind(t, &planner{places: []string{"ml"}}, true)
	rest, send := io.Pipe()
	body := io.MultiReader(strings.NewReader(strings.Repeat(" ", maxInput)+"  "), rest)
	passed := make(chan error, 1)
	go func() {
		response, err := http.Post(b.proxy.URL+"/v1/jobs?namespace=other", "application/json", body)
		if err == nil {
			err = response.Body.Close()
		}
		passed <- err
	}()
	if _, err := send.Write([]byte(managedJob(""))); err != nil { // all before it has been read
		t.Fatal(err)
	}
	b.uncounted(t)
	if err := send.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-passed; err != nil || len(b.bodies) != 1 {
		t.Errorf("%v, %d bodies sent on", err, len(b.bodies))
	}
}

func TestProxy_HoldsSoMuchOfLargeRequestsAndNoMore(t *testing.T) {
	plans := &hung{planner{reject: "no"}, make(chan struct{}, maxBodies/maxInput+1), make(chan struct{})}
	b := newBehind(t, plans, true)
	large := strings.Repeat(" ", maxInput-len(managedJob(""))) + managedJob("")
	var sending errgroup.Group
	for range maxBodies / maxInput {
		sending.Go(func() error {
			response, err := http.Post(b.proxy.URL+"/v1/jobs", "application/json", strings.NewReader(large))
			if err != nil {
				return err
			}
			return response.Body.Close()
		})
	}
	for range maxBodies / maxInput {
		<-plans.asked
	}
	if code, answer := b.put(t, "/v1/jobs", large); code != http.StatusServiceUnavailable || !strings.Contains(answer, "try again") {
		t.Errorf("one more: %d %s", code, answer)
	}
	if code, answer := b.put(t, "/v1/jobs", `{"Job":{"ID":"small"}}`); code != http.StatusOK {
		t.Errorf("a small one: %d %s", code, answer)
	}
	close(plans.may)
	if err := sending.Wait(); err != nil {
		t.Error(err)
	}
	b.uncounted(t)
	if code, answer := b.put(t, "/v1/jobs", large); code != http.StatusBadRequest || !strings.Contains(answer, "no") {
		t.Errorf("afterwards: %d %s", code, answer)
	}
}
