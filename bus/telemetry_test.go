package bus

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/psgrid/psg"
)

// watch watches telemetry until the test ends.
func watch(t *testing.T, bus *Bus) <-chan psg.Sample {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	got := make(chan psg.Sample, 1024)
	done := make(chan error, 1)
	go func() { done <- bus.WatchTelemetry(ctx, func(sample psg.Sample) error { got <- sample; return nil }) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return got
}

func sampleOf(node psg.NodeID) psg.Sample {
	return psg.Sample{
		Node: node, Session: 7, Sequence: 3, At: time.Unix(1_700_000_000, 200_000_000).UTC(), Full: true,
		Declared: []psg.Declared{{ID: 1, Metric: "cpu_percent", Scale: 10}},
		Values:   []psg.Value{{Series: 1, Units: 125}},
		Slots:    []psg.Slot{{Number: 169_999_999, Data: []byte{1, 2, 20}}},
	}
}

func TestTelemetry_ReachesWatchers(t *testing.T) {
	bus := open(t, t.TempDir())
	got := watch(t, bus)
	want := sampleOf("rack 1.node*%")
	for retry := time.NewTicker(10 * time.Millisecond); ; { // until subscribed
		if err := bus.PublishTelemetry(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		select {
		case sample := <-got:
			if diff := cmp.Diff(want, sample); diff != "" {
				t.Errorf("(-published +watched):\n%s", diff)
			}
			return
		case <-retry.C:
		}
	}
}

func TestTelemetry_WatchersAskAgentsForFullSamples(t *testing.T) {
	bus := open(t, t.TempDir())
	asked := make(chan struct{}, 16)
	if err := bus.OnResync(func() { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	watch(t, bus)
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Error("nobody asked")
	}
	agent, err := PermissionsOf("agent/n1")
	if err != nil || !slices.Contains(agent.Subscribe, resyncSubject) {
		t.Errorf("%v: an agent may not hear that it is asked: %+v", err, agent)
	}
	controller, err := PermissionsOf("controller")
	if err != nil || !slices.Contains(controller.Publish, resyncSubject) {
		t.Errorf("%v: a controller may not ask: %+v", err, controller)
	}
}

func TestTelemetry_IgnoresWhatIsNoSampleOfANode(t *testing.T) {
	bus := open(t, t.TempDir())
	got := watch(t, bus)
	for retry := time.NewTicker(10 * time.Millisecond); ; {
		for subject, data := range map[string]string{
			TelemetrySubject("garbage"): "\xff\xff",
			telemetrySubject + "%2":     "",
			telemetrySubject + "%61":    "", // not how an "a" is written
		} {
			if err := bus.conn.Publish(subject, []byte(data)); err != nil {
				t.Fatal(err)
			}
		}
		if err := bus.PublishTelemetry(t.Context(), sampleOf("honest")); err != nil {
			t.Fatal(err)
		}
		select {
		case sample := <-got:
			if sample.Node != "honest" {
				t.Errorf("took %+v", sample)
			}
			return
		case <-retry.C:
		}
	}
}

// FuzzNodeOf: a subject's token is of one node at most, and says the node.
func FuzzNodeOf(f *testing.F) {
	f.Add("rack 1.node*%", "n%2E1")
	f.Fuzz(func(t *testing.T, id, escaped string) {
		if node, ok := nodeOf(token(psg.NodeID(id))); !ok || node != psg.NodeID(id) {
			t.Errorf("%q comes back as %q, %t", id, node, ok)
		}
		if node, ok := nodeOf(escaped); ok && token(node) != escaped {
			t.Errorf("%q is taken for %q", escaped, node)
		}
	})
}
