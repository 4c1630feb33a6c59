package incident

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plan is one incident to run.
type plan struct {
	outcome
	phase float64
}

// planned are a block's incidents: one of each kind and arm, in random order. The
// same seed and number give the same block, whichever of its arms are measured.
func planned(seed uint64, number int) []plan {
	rng := rand.New(rand.NewPCG(seed, uint64(number)))
	var all []plan
	for _, kind := range []string{"cpu", "memory", "io"} {
		stops := []string{"prompt", "finishing"}[rng.IntN(2)]
		for _, arm := range []string{"baseline", "equal", "psg"} {
			all = append(all, plan{outcome{Kind: kind, Arm: arm, Stops: stops, Block: number, Seed: seed}, rng.Float64()})
		}
	}
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// block runs one block's incidents of the kinds and arms that are asked for.
func (b *bench) block(number int) (done []outcome) {
	for _, p := range planned(*seed, number) {
		if !listed(*kinds, p.Kind) || !listed(*arms, p.Arm) {
			continue
		}
		follow := p.Arm == "psg" && *whole > 0 && number%*whole == 0
		for try := range tries {
			o := b.incident(p.outcome, p.phase, follow)
			o.NoHarm = try
			if o.Harmed == 0 {
				b.Logf("block %d %s %s: nobody was harmed", number, p.Kind, p.Arm)
				continue
			}
			b.Logf("block %d %s %s (%s): harmed %.2f, detected %.2f, recovered %.2f s, censored %t, false %d",
				number, o.Kind, o.Arm, o.Stops, o.Harmed, o.Detected, o.Recovered, o.Censored, o.False)
			if err := writeOutcome(*out, o); err != nil {
				b.Fatal(err)
			}
			done = append(done, o)
			break
		}
	}
	return done
}

func listed(names, name string) bool { return slices.Contains(strings.Split(names, ","), name) }

func TestPlanned_OneOfEachInAnOrderOfItsOwn(t *testing.T) {
	first, again, next := planned(1, 0), planned(1, 0), planned(1, 1)
	if !slices.Equal(first, again) {
		t.Error("the same block is planned in two ways")
	}
	if slices.Equal(first, next) || len(first) != 9 {
		t.Errorf("planned %+v", first)
	}
	stops := map[string]string{}
	for _, p := range first {
		if before, known := stops[p.Kind]; known && before != p.Stops {
			t.Errorf("the arms of %s stop in two ways", p.Kind)
		}
		stops[p.Kind] = p.Stops
	}
}
