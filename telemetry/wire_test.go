package telemetry_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/telemetry"
	"github.com/psgrid/psg/wire"
)

// TestWire_IdleNodeStaysBelowTwoKilobytesASecond counts what five minutes of a
// node with 100 idle allocations take on the bus, NATS's own bytes included: 60
// metrics of the node, of which a quarter flickers, and 12 of each allocation,
// whose CPU use does now and then.
func TestWire_IdleNodeStaysBelowTwoKilobytesASecond(t *testing.T) {
	const span = 5 * time.Minute
	rng := rand.New(rand.NewPCG(1, 1))
	node := psg.NodeID("6f0c3a2e-5a1b-4c11-8f00-0123456789ab")
	r, err := telemetry.NewRecorder(node, telemetry.Config{CPUMHz: 48_000, CPUs: 16})
	if err != nil {
		t.Fatal(err)
	}
	bytes, largest := 0, 0
	for at := time.Unix(1_800_000_000, 0); at.Before(time.Unix(1_800_000_000, 0).Add(span)); at = at.Add(200 * time.Millisecond) {
		for i := range 60 {
			value := float64(100 * i)
			if i%4 == 0 && rng.IntN(3) == 0 {
				value += 3 * rng.Float64()
			}
			r.Node(fmt.Sprintf("some_metric_of_the_node_%d_percent", i)).Put(at, value)
		}
		for i := range 100 {
			alloc := psg.AllocID(fmt.Sprintf("0a1b2c3d-5a1b-4c11-8f00-%012d", i))
			for m := range 12 {
				value := float64(m * 100)
				if m == 0 && rng.IntN(200) == 0 {
					value = 0.3
				}
				r.Alloc(alloc, fmt.Sprintf("some_metric_of_it_%d_percent", m)).Put(at, value)
			}
		}
		data, err := wire.EncodeSample(r.Cut(at))
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(data) + len(bus.TelemetrySubject(node)) + len("PUB  12345\r\n\r\n")
		largest = max(largest, len(data))
	}
	perSecond := float64(bytes) / span.Seconds()
	t.Logf("%.0f bytes a second, the largest sample has %d", perSecond, largest)
	if perSecond > 2000 {
		t.Errorf("%.0f bytes a second, want less than 2000", perSecond)
	}
}
