package telemetry

import (
	"encoding/csv"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

var traces = flag.String("traces", "", "directory of public traces of use, to measure forecasts on: CSV files whose first row names a column value or cpu_util_percent, one row a slot")

// score is how forecasts of a series did.
type score struct {
	error, naive float64 // mean absolute error of the mean, and of the last value in its place
	covered      float64 // share of the upper bounds that held
	pinball      float64 // loss of the upper bound, and of the last value with a bound made alike
	naivePinball float64
}

// judge runs a forecaster over a series and compares it with what came.
func judge(values []float64) score {
	var f, naive forecaster
	var scratch [keptErrors]float32
	type guess struct{ mean, last, upper, naive float64 }
	var guesses []guess
	var s score
	n := 0.0
	for i, v := range values {
		f.step(v, &scratch)
		naive.losses = [len(rates)]float64{1e3, 1e3, 1e3, 0} // trust only the smoother that takes the newest for all
		naive.step(v, &scratch)
		mean, upper, ok := f.forecast()
		_, naiveUpper, _ := naive.forecast()
		if !ok {
			upper = math.NaN()
		}
		guesses = append(guesses, guess{mean, v, upper, naiveUpper})
		if i < horizonSlots || math.IsNaN(guesses[i-horizonSlots].upper) {
			continue
		}
		was := guesses[i-horizonSlots]
		came, peak := 0.0, math.Inf(-1)
		for _, v := range values[i-horizonSlots+1 : i+1] {
			came += v / float64(horizonSlots)
			peak = max(peak, v)
		}
		n++
		s.error += math.Abs(was.mean - came)
		s.naive += math.Abs(was.last - came)
		if peak <= was.upper+1e-4*math.Abs(was.upper) {
			s.covered++
		}
		s.pinball += pinball(peak - was.upper)
		s.naivePinball += pinball(peak - was.naive)
	}
	return score{s.error / n, s.naive / n, s.covered / n, s.pinball / n, s.naivePinball / n}
}

func pinball(excess float64) float64 { return max(confidence*excess, (confidence-1)*excess) }

// TestForecast_BeatsTheLastValueOnPublicTraces prints what it measures.
func TestForecast_BeatsTheLastValueOnPublicTraces(t *testing.T) {
	if *traces == "" {
		t.Skip("SKIPPED: no -traces: forecasts are not measured on public traces")
	}
	files, err := filepath.Glob(filepath.Join(*traces, "*.csv"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces in %s: %v", *traces, err)
	}
	ratio := 0.0
	for _, file := range files {
		s := judge(readTrace(t, file))
		t.Logf("%-45s error %.2f of naive, pinball %.2f of naive, covered %.1f %%", filepath.Base(file), s.error/s.naive, s.pinball/s.naivePinball, 100*s.covered)
		ratio += math.Log(s.error/s.naive) / float64(len(files))
		if s.covered < confidence-0.03 || s.covered > confidence+0.03 {
			t.Errorf("%s: %.1f %% of the bounds held, want about %v %%", file, 100*s.covered, 100*confidence)
		}
		if s.error > 1.1*s.naive {
			t.Errorf("%s: the error is %.2f of the naive forecast's", file, s.error/s.naive)
		}
	}
	t.Logf("%d series: error %.2f of naive (geometric mean)", len(files), math.Exp(ratio))
	if ratio >= 0 {
		t.Error("forecasts are no better than the last value")
	}
}

func readTrace(t *testing.T, path string) (values []float64) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows := csv.NewReader(file)
	head, err := rows.Read()
	if err != nil {
		t.Fatal(err)
	}
	column := -1
	for i, name := range head {
		if name == "value" || name == "cpu_util_percent" {
			column = i
		}
	}
	if column < 0 {
		t.Fatalf("%s has no column value or cpu_util_percent", path)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return values
		}
		if err != nil {
			t.Fatal(err)
		}
		if v, err := strconv.ParseFloat(row[column], 64); err == nil {
			values = append(values, v)
		}
	}
}

func TestForecast_BoundHoldsAsOftenAsItSays(t *testing.T) {
	for name, next := range map[string]func(rng *rand.Rand, before float64, i int) float64{
		"noise": func(rng *rand.Rand, _ float64, _ int) float64 { return 50 + 10*rng.NormFloat64() },
		"drift": func(rng *rand.Rand, before float64, _ int) float64 { return before + rng.NormFloat64() },
		"revert": func(rng *rand.Rand, before float64, _ int) float64 {
			return 40 + 0.95*(before-40) + 3*rng.NormFloat64()
		},
		"spikes":  func(rng *rand.Rand, _ float64, _ int) float64 { return 10 + 80*float64(rng.IntN(100)/98) },
		"regimes": func(rng *rand.Rand, _ float64, i int) float64 { return float64(10+40*(i/700%2)) + rng.NormFloat64() },
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		values := make([]float64, 4000)
		before := 50.0
		for i := range values {
			before = next(rng, before, i)
			values[i] = before
		}
		s := judge(values)
		if s.covered < confidence-0.02 || s.covered > confidence+0.025 {
			t.Errorf("%s: %.1f %% of the bounds held, want %v %%", name, 100*s.covered, 100*confidence)
		}
		if most := map[string]float64{"noise": 0.3, "drift": 1.05, "revert": 0.95, "spikes": 0.75, "regimes": 1.5}[name]; s.error > most*s.naive {
			t.Errorf("%s: error %.3f, of the naive forecast %.3f, want at most %v of it", name, s.error, s.naive, most)
		}
	}
}

func TestForecast_OfWhatStandsStillIsThat(t *testing.T) {
	var f forecaster
	var scratch [keptErrors]float32
	for i := range 200 {
		if _, _, ok := f.forecast(); ok != (i > horizonSlots+leastErrors-1) {
			t.Fatalf("forecast after %d slots: %t", i, ok)
		}
		f.step(7, &scratch)
	}
	if mean, upper, _ := f.forecast(); mean != 7 || upper != 7 {
		t.Errorf("forecast is %v, at most %v, want 7", mean, upper)
	}
}

func TestProjection_ReachesReadersInTheUnitsOfResources(t *testing.T) {
	r, w := newRecorder(t, Config{CPUMHz: 40_000, CPUs: 10}), NewWindows()
	at := origin
	for range 12 * 60 {
		r.Node("cpu_percent").Put(at, 25)
		r.Node("memory_used_mb").Put(at, 2048)
		r.Alloc("a1", "cpu_percent").Put(at, 150) // of one CPU
		r.Alloc("a1", "memory_mb").Put(at, 512)
		fold(t, w, r.Cut(at))
		at = at.Add(time.Second)
	}
	seen := observed(t, w)
	if p := seen.Projection; p == nil || p.Horizon != 5*time.Minute || p.Mean[psg.CPU] != 10_000 || p.Upper[psg.CPU] != 10_000 || p.Mean[psg.Memory] != 2048 {
		t.Errorf("the node's projection is %+v, want a quarter of 40 GHz and 2 GiB", p)
	}
	if p := seen.Telemetry.Allocs[0].Projection; p == nil || p.Mean[psg.CPU] != 6_000 || p.Upper[psg.Memory] != 512 {
		t.Errorf("the allocation's is %+v, want 1.5 CPUs of 4 GHz and 512 MiB", p)
	}
	again := observed(t, w)
	if again.Projection != seen.Projection {
		t.Error("a projection that has not changed is made anew")
	}
}

func BenchmarkForecast(b *testing.B) {
	var f forecaster
	var scratch [keptErrors]float32
	rng := rand.New(rand.NewPCG(1, 1))
	for range b.N {
		f.step(50+10*rng.NormFloat64(), &scratch)
	}
}
