package heal

import (
	"fmt"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestObserve_CostsLittleOnALargeNode: what is the same for all sufferers and
// suspects is made once.
func TestObserve_CostsLittleOnALargeNode(t *testing.T) {
	const sufferers, suspects = 60, 200
	d := New()
	r := Reading{At: time.Unix(1e9, 0), Pressure: Amounts{80, 80, 80}}
	var charges []psg.Charge
	for i := range sufferers + suspects {
		id := psg.AllocID(fmt.Sprintf("a%04d", i))
		a := Alloc{ID: id, Use: Amounts{1, 100, 1}}
		if i < sufferers {
			a.Pressure = 90
			charges = append(charges, psg.Charge{Alloc: id, Protected: true})
		} else {
			charges = append(charges, psg.Charge{Alloc: id, Yields: true})
		}
		r.Allocs = append(r.Allocs, a)
	}
	d.Entrust(charges)
	allocations := testing.AllocsPerRun(20, func() {
		r.At = r.At.Add(200 * time.Millisecond)
		d.Observe(r)
	})
	if !d.Noisy() {
		t.Error("nobody suffers here")
	}
	if allocations > 30*sufferers {
		t.Errorf("%.0f allocations for one reading", allocations)
	}
}
