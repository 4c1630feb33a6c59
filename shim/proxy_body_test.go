package shim

import (
	"context"
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
	for late := time.Now().Add(10 * time.Second); b.serves.bodies.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d bytes are still counted", b.serves.bodies.Load())
		}
	}
	if code, answer := b.put(t, "/v1/jobs", large); code != http.StatusBadRequest || !strings.Contains(answer, "no") {
		t.Errorf("afterwards: %d %s", code, answer)
	}
}
