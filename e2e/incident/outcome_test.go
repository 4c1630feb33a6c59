package incident

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// outcome is how one incident went. Times are in seconds since its onset.
type outcome struct {
	Kind      string  `json:"kind"`
	Arm       string  `json:"arm"`
	Stops     string  `json:"stops"` // "prompt" or "finishing"
	Block     int     `json:"block"`
	Seed      uint64  `json:"seed"`
	Objective float64 `json:"objective_ms"`
	Harmed    float64 `json:"harmed"`
	Detected  float64 `json:"detected"` // when an action began; 0: never
	Recovered float64 `json:"recovered"`
	Censored  bool    `json:"censored"`
	False     int     `json:"false"`             // throttles, or stops, of somebody else
	Lost      float64 `json:"lost,omitempty"`    // of the antagonist's work of 60 s, as a share
	LostKnown bool    `json:"lost_known"`        // whether Lost was measured
	NoHarm    int     `json:"no_harm,omitempty"` // tries before this one in which nobody was harmed
}

func readOutcomes(names string) ([]outcome, error) {
	var all []outcome
	for _, name := range strings.Split(names, ",") {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for n := 1; lines.Scan(); n++ {
			var o outcome
			if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
				return nil, errors.Join(fmt.Errorf("%s:%d: %w", name, n, err), file.Close())
			}
			all = append(all, o)
		}
		if err := errors.Join(lines.Err(), file.Close()); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func writeOutcome(name string, o outcome) error {
	if name == "" {
		return nil
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(file).Encode(o), file.Close())
}

func median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

const resamples = 10_000

// ratio is the median of one arm over the median of another, with a 95 % interval
// by bootstrap over blocks: both arms' incidents of a block go together.
func ratio(of, over map[int]float64) (value, low, high float64) {
	var blocks []int
	for block := range of {
		if _, both := over[block]; both {
			blocks = append(blocks, block)
		}
	}
	slices.Sort(blocks)
	if len(blocks) == 0 {
		return 0, 0, 0
	}
	medians := func(pick func(i int) int) float64 {
		a, b := make([]float64, len(blocks)), make([]float64, len(blocks))
		for i := range blocks {
			block := blocks[pick(i)]
			a[i], b[i] = of[block], over[block]
		}
		return median(a) / median(b)
	}
	rng := rand.New(rand.NewPCG(1, 8))
	drawn := make([]float64, resamples)
	for i := range drawn {
		drawn[i] = medians(func(int) int { return rng.IntN(len(blocks)) })
	}
	slices.Sort(drawn)
	return medians(func(i int) int { return i }), drawn[resamples*25/1000], drawn[resamples*975/1000-1]
}

// report prints what docs/design/0008 asks for.
func report(w io.Writer, all []outcome) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "kind\tstops\tarm\tn\tcensored\trecovered s (median)\tdetected s\tdetected to recovered s\tfalse\twork lost\tratio to psg (95 %)")
	for _, kind := range []string{"cpu", "memory", "io", "all"} {
		for _, stops := range []string{"both", "prompt", "finishing"} {
			for _, arm := range []string{"baseline", "equal", "psg"} {
				row(table, all, kind, stops, arm)
			}
		}
	}
	return table.Flush()
}

func row(w io.Writer, all []outcome, kind, stops, arm string) {
	var recovered, detected, after, lost []float64
	censored, wrong := 0, 0
	times := map[string]map[int]float64{}
	for _, o := range all {
		if kind != "all" && o.Kind != kind || stops != "both" && o.Stops != stops {
			continue
		}
		if times[o.Arm] == nil {
			times[o.Arm] = map[int]float64{}
		}
		times[o.Arm][o.id()] = o.Recovered
		if o.Arm != arm {
			continue
		}
		recovered, wrong = append(recovered, o.Recovered), wrong+o.False
		if o.Censored {
			censored++
		} else if o.Detected > 0 {
			detected, after = append(detected, o.Detected), append(after, max(0, o.Recovered-o.Detected))
		}
		if o.LostKnown {
			lost = append(lost, o.Lost)
		}
	}
	if len(recovered) == 0 {
		return
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%.2f\t%.2f\t%.2f\t%d\t", kind, stops, arm, len(recovered), censored, median(recovered), median(detected), median(after), wrong)
	if len(lost) > 0 {
		fmt.Fprintf(w, "%.0f %% (n=%d)\t", 100*median(lost), len(lost))
	} else {
		fmt.Fprint(w, "-\t")
	}
	if arm == "psg" || len(times["psg"]) == 0 {
		fmt.Fprintln(w, "-")
		return
	}
	value, low, high := ratio(times[arm], times["psg"])
	fmt.Fprintf(w, "%.1f (%.1f to %.1f)\n", value, low, high)
}

// id tells the blocks of all kinds and seeds apart.
func (o outcome) id() int {
	return int(o.Seed)*1_000_000 + o.Block*10 + slices.Index([]string{"cpu", "memory", "io"}, o.Kind)
}

func TestRatio_OfMediansWithItsInterval(t *testing.T) {
	of, over := map[int]float64{}, map[int]float64{}
	for i := range 31 {
		of[i], over[i] = 20+float64(i%3), 2
	}
	of[99] = 1e9 // without its pair
	value, low, high := ratio(of, over)
	if value != 10.5 || low < 10 || high > 11 || low > value || high < value {
		t.Errorf("ratio %v, %v to %v", value, low, high)
	}
	if value, _, _ := ratio(of, nil); value != 0 {
		t.Errorf("ratio %v over nothing", value)
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("median %v", got)
	}
}

func TestReport_CountsWhatIsCensored(t *testing.T) {
	var all []outcome
	for block := range 5 {
		all = append(all,
			outcome{Kind: "cpu", Arm: "psg", Stops: "prompt", Block: block, Recovered: 2, Detected: 1, False: block / 4},
			outcome{Kind: "cpu", Arm: "baseline", Stops: "prompt", Block: block, Recovered: 50, Censored: block == 0, Lost: 0.5, LostKnown: true})
	}
	var text strings.Builder
	if err := report(&text, all); err != nil {
		t.Fatal(err)
	}
	lines := map[string][]string{}
	for line := range strings.Lines(text.String()) {
		fields := strings.Fields(line)
		lines[strings.Join(fields[:3], " ")] = fields[3:]
	}
	if got := lines["cpu both baseline"]; len(got) < 8 || got[0] != "5" || got[1] != "1" || got[2] != "50.00" || !strings.Contains(text.String(), "25.0 (25.0 to 25.0)") {
		t.Errorf("printed\n%s", &text)
	}
	if got := lines["cpu both psg"]; len(got) < 6 || got[4] != "1.00" || got[5] != "1" {
		t.Errorf("printed\n%s", &text)
	}
}
