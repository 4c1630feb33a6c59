package heal

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// promise follows a detector and fails once it breaks what it promises.
type promise struct {
	t       *testing.T
	charges map[psg.AllocID]psg.Charge
	held    map[psg.AllocID]bool
	holds   []time.Time
	at      time.Time
}

func (p *promise) check(at time.Time, acts []Act) {
	p.t.Helper()
	if at.After(p.at) {
		p.at = at
	}
	for _, act := range acts {
		switch {
		case act.Hold == p.held[act.Alloc]:
			p.t.Fatalf("%+v, which it is already", act)
		case act.Hold && (p.charges[act.Alloc].Protected || !p.charges[act.Alloc].Yields):
			p.t.Fatalf("held one that does not yield: %+v", act)
		case act.Hold && act.What == [Resources]bool{}:
			p.t.Fatalf("held in nothing: %+v", act)
		}
		p.held[act.Alloc] = act.Hold
		if !act.Hold {
			delete(p.held, act.Alloc)
			continue
		}
		p.holds = append(p.holds, p.at)
	}
	p.holds = slices.DeleteFunc(p.holds, func(held time.Time) bool { return p.at.Sub(held) >= Span })
	if len(p.holds) > MaxHolds || len(p.held) > maxHeld {
		p.t.Fatalf("%d holds in %s, %d at once: it flaps", len(p.holds), Span, len(p.held))
	}
	for id := range p.held {
		if !p.charges[id].Yields || p.charges[id].Protected {
			p.t.Fatalf("%s is held without a mandate", id)
		}
	}
}

// hostile makes readings meant to have a detector flap.
type hostile struct {
	rng *rand.Rand
	now time.Time
}

func (h *hostile) amount(most float64) float64 {
	switch h.rng.IntN(12) {
	case 0:
		return math.NaN()
	case 1:
		return math.Inf(1)
	case 2:
		return 0
	}
	return h.rng.Float64() * most
}

// around is a time about another.
func (h *hostile) around(at time.Time) time.Time {
	return at.Add(time.Duration(h.rng.Int64N(int64(20*time.Second))) - 5*time.Second)
}

func (h *hostile) reading() Reading {
	h.now = h.now.Add(time.Duration(h.rng.Int64N(int64(900*time.Millisecond))) - 50*time.Millisecond)
	r := Reading{At: h.now, Pressure: Amounts{h.amount(100), h.amount(100), h.amount(100)}}
	if h.rng.IntN(10) == 0 {
		r.Steal = h.amount(50)
	}
	for i := range 8 {
		if h.rng.IntN(20) == 0 {
			continue
		}
		a := Alloc{
			ID: psg.AllocID(fmt.Sprint("a", i)), Use: Amounts{h.amount(4), h.amount(2000), h.amount(500)},
			Throttled: h.amount(6), Pressure: h.amount(100),
		}
		for range h.rng.IntN(4) {
			a.Probes = append(a.Probes, time.Duration(h.rng.Int64N(int64(2*objective))))
		}
		r.Allocs = append(r.Allocs, a)
	}
	return r
}

func (h *hostile) charges() []psg.Charge {
	var out []psg.Charge
	for i := range 8 {
		c := psg.Charge{Alloc: psg.AllocID(fmt.Sprint("a", i))}
		switch h.rng.IntN(4) {
		case 0:
			c.Protected, c.Probe = true, &psg.Probe{Interval: step, Objective: objective}
		case 1:
			c.Protected = true
		case 2:
			c.Yields, c.Floor = true, psg.Resources{psg.CPU: h.rng.Int64N(2000)}
		}
		out = append(out, c)
	}
	return out
}

// TestObserve_KeepsItsPromisesWhateverItReads: it never flaps, never holds one
// that does not yield, and lets go of everybody with the mandate.
func TestObserve_KeepsItsPromisesWhateverItReads(t *testing.T) {
	holds := 0
	for seed := range uint64(16) {
		h := &hostile{rng: rand.New(rand.NewPCG(seed, 6)), now: time.Unix(0, 0)}
		d := New()
		p := &promise{t: t, held: map[psg.AllocID]bool{}}
		for i := range 3000 {
			if i%700 == 0 || h.rng.IntN(2000) == 0 {
				var given []psg.Charge
				if h.rng.IntN(5) > 0 {
					given = h.charges()
				}
				p.charges = map[psg.AllocID]psg.Charge{}
				for _, c := range given {
					p.charges[c.Alloc] = c
				}
				d.Entrust(given)
			}
			r := h.reading()
			acts := d.Observe(r)
			p.check(r.At, acts)
			for _, act := range acts {
				if !act.Hold {
					continue
				}
				holds++
				switch h.rng.IntN(4) {
				case 0, 1:
					d.Done(act.Alloc, h.around(r.At))
				case 2:
					d.Failed(act.Alloc)
					delete(p.held, act.Alloc)
				}
			}
		}
		d.Entrust(nil)
		p.charges = nil
		r := h.reading()
		p.check(r.At, d.Observe(r))
		if len(p.held) > 0 {
			t.Fatalf("seed %d: %v are held without a mandate", seed, p.held)
		}
	}
	if holds < 40 {
		t.Errorf("%d holds in all: the readings are too tame to show anything", holds)
	}
}

// TestObserve_IsDeterministic: the same readings give the same acts.
func TestObserve_IsDeterministic(t *testing.T) {
	run := func() (all []Act) {
		h := &hostile{rng: rand.New(rand.NewPCG(3, 6)), now: time.Unix(0, 0)}
		d := New()
		d.Entrust(h.charges())
		for range 3000 {
			all = append(all, d.Observe(h.reading())...)
		}
		return all
	}
	first := run()
	if len(first) == 0 {
		t.Fatal("nothing was done")
	}
	if again := run(); !slices.Equal(first, again) {
		t.Error("the same readings gave other acts")
	}
}

// TestObserve_ForgetsWhoIsGone: a node where allocations come and go does not
// remember them all.
func TestObserve_ForgetsWhoIsGone(t *testing.T) {
	d, now := New(), time.Unix(0, 0)
	for i := range 1000 {
		now = now.Add(step)
		d.Observe(Reading{At: now, Allocs: []Alloc{{ID: psg.AllocID(fmt.Sprint(i))}}})
	}
	if len(d.known) > int(absence/step)+2 {
		t.Errorf("%d allocations are remembered", len(d.known))
	}
}

// TestObserve_AnAdversaryCannotMakeItFlap: neighbours that take turns, each quiet
// as long as it is held and at it again once nobody is.
func TestObserve_AnAdversaryCannotMakeItFlap(t *testing.T) {
	const neighbours = 8
	given := []psg.Charge{{Alloc: "victim", Protected: true, Probe: &psg.Probe{Interval: step, Objective: objective}}}
	for i := range neighbours {
		given = append(given, psg.Charge{Alloc: psg.AllocID(fmt.Sprint("n", i)), Yields: true})
	}
	d, now, turn, holds := New(), time.Unix(0, 0), 0, 0
	d.Entrust(given)
	p := &promise{t: t, held: map[psg.AllocID]bool{}, charges: map[psg.AllocID]psg.Charge{}}
	for _, c := range given {
		p.charges[c.Alloc] = c
	}
	for range int(2 * Span / step) {
		now = now.Add(step)
		took := ill
		if len(p.held) > 0 {
			took = well
		}
		r := Reading{At: now, Pressure: Amounts{90, 0, 0}}
		for i := range neighbours {
			use := 0.0
			if i == turn%neighbours && len(p.held) == 0 {
				use = 2
			}
			r.Allocs = append(r.Allocs, Alloc{ID: psg.AllocID(fmt.Sprint("n", i)), Use: Amounts{use, 0, 0}})
		}
		r.Allocs = append(r.Allocs, Alloc{ID: "victim", Use: Amounts{0.1, 0, 0}, Probes: []time.Duration{took}})
		acts := d.Observe(r)
		for _, act := range acts {
			if act.Hold {
				holds++
			} else {
				turn++
			}
		}
		p.check(now, acts)
	}
	if holds < MaxHolds {
		t.Errorf("%d holds: the adversary is too tame to show anything", holds)
	}
}
