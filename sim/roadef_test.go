package sim

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg/placement/search"
)

// Two machines, one of which holds both processes: one load unit too many, and
// a free unit of the first resource wants one of the second.
const (
	roadefModel = "2\n1 10\n0 1\n" +
		"2\n0 0 10 10 3 5 0 2\n0 1 10 10 5 5 2 0\n" +
		"2\n1 0\n1 1 0\n" +
		"2\n0 2 3 1\n1 2 3 1\n" +
		"1\n0 1 1 10\n1 10 100\n"
	roadefInitial = "0 0\n"
)

// roadefOf writes an instance to disk and solves it.
func roadefOf(t *testing.T, model, initial string, r Roadef) (string, RoadefResult, error) {
	t.Helper()
	dir := t.TempDir()
	r.Model, r.Assignment, r.Out = filepath.Join(dir, "model.txt"), filepath.Join(dir, "initial.txt"), filepath.Join(dir, "new.txt")
	for path, text := range map[string]string{r.Model: model, r.Assignment: initial} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	result, err := r.Run()
	out, _ := os.ReadFile(r.Out)
	return string(out), result, err
}

func TestRoadef_ScoresAsTheRefereeDoes(t *testing.T) {
	// Both on machine 0: load 10*(4-3) + (6-5), balance 10*((10-4)-(10-6)) there;
	// a move would save all but 10 on each machine and cost 1 + 10 + 2*100.
	for _, threads := range []int{1, 2} {
		out, result, err := roadefOf(t, roadefModel, roadefInitial, Roadef{Steps: 5000, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		if out != "0\n0\n" || result.Initial.Total() != 31 || result.Final != result.Initial || result.Moved != 0 {
			t.Errorf("%s%+v", out, result)
		}
		cheap := strings.Replace(roadefModel, "1 10 100\n", "1 1 1\n", 1)
		out, result, err = roadefOf(t, cheap, roadefInitial, Roadef{Steps: 5000, Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		// Balance 10*((10-2)-(10-3)) on each; 1 + 1 + 2 for the move.
		if out != "1\n0\n" && out != "0\n1\n" || result.Final.Total() != 24 || result.Moved != 1 || result.Steps < int64(threads)*5000 {
			t.Errorf("%s%+v", out, result)
		}
		if far, near := result.From(23), result.From(25); far != 1./31 || near != -1./31 {
			t.Errorf("from the best cost %g or %g of the initial one", far, near)
		}
	}
}

func TestRoadef_EndsInTime(t *testing.T) {
	_, result, err := roadefOf(t, roadefModel, roadefInitial, Roadef{Seconds: 1, Threads: 2})
	if err != nil || result.Took.Seconds() < 0.9 || result.Took.Seconds() > 5 {
		t.Errorf("%v, %v", result.Took, err)
	}
}

func TestRoadef_SaysAtOnceThatItCannotWrite(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"model.txt": roadefModel, "initial.txt": roadefInitial} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := Roadef{
		Model: filepath.Join(dir, "model.txt"), Assignment: filepath.Join(dir, "initial.txt"),
		Out: filepath.Join(dir, "missing", "new.txt"), Seconds: 1 << 40,
	}
	if _, err := r.Run(); !os.IsNotExist(err) {
		t.Errorf("%v, want that there is no such folder", err)
	}
}

func TestRoadef_NamesWhatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct{ model, initial, want string }{
		"word":        {strings.Replace(roadefModel, "1 10\n", "1 x\n", 1), "0 0", `model.txt:2: load weight "x" is not in 0..281474976710656`},
		"flag":        {strings.Replace(roadefModel, "1 10\n", "2 10\n", 1), "0 0", `model.txt:2: transient "2" is not in 0..1`},
		"negative":    {strings.Replace(roadefModel, "10 10 5 5", "10 -1 5 5", 1), "0 0", `model.txt:6: capacity "-1"`},
		"dependency":  {strings.Replace(roadefModel, "1 1 0\n", "1 1 2\n", 1), "0 0", `model.txt:9: dependency "2" is not in 0..1`},
		"service":     {strings.Replace(roadefModel, "1 2 3 1\n", "5 2 3 1\n", 1), "0 0", `model.txt:12: service "5"`},
		"huge":        {"2\n1 10\n0 1\n99999999999\n", "", `model.txt:4: number of machines "99999999999"`},
		"short":       {"2\n1 10\n0 1\n65535\n", "", "model.txt:5: file ends where a neighbourhood is expected"},
		"more":        {roadefModel + "7\n", "0 0", `model.txt:16: "7" after the end`},
		"no machine":  {"1\n0 1\n0\n1\n0 0\n1\n0 1 1\n0\n1 1 1\n", "0\n", `initial.txt:1: machine "0": there is none`},
		"machine":     {roadefModel, "0\n2\n", `initial.txt:2: machine "2" is not in 0..1`},
		"few":         {roadefModel, "0\n", "initial.txt:2: file ends where a machine is expected"},
		"many":        {roadefModel, "0 0 0\n", `initial.txt:1: "0" after the end`},
		"not allowed": {strings.Replace(roadefModel, "0 0 10 10", "0 0 10 4", 1), "0 0", "model.txt: search: initial assignment: node 0 holds 6 of resource 1, capacity 4"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := roadefOf(t, tc.model, tc.initial, Roadef{Steps: 1})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func FuzzRoadef_NeverPanics(f *testing.F) {
	f.Add(roadefModel)
	f.Add("1\n0 1\n1\n0 0 5 5 0\n1\n0 0\n0\n0\n1 1 1\n")
	f.Fuzz(func(t *testing.T, model string) {
		if len(model) > 1<<12 {
			return
		}
		in := newNumbers(strings.NewReader(model), "model.txt")
		p := readRoadef(in)
		if in.err != nil {
			return
		}
		p.Initial = make([]int, len(p.Items))
		for _, near := range []bool{false, true} {
			got, err := search.Solve(p, search.Options{Steps: 2000, Near: near})
			if err == nil && (p.Check(got.Assignment) != nil || got.Cost.Total() > p.Cost(p.Initial).Total()) {
				t.Errorf("%v, at a cost of %d", p.Check(got.Assignment), got.Cost.Total())
			}
		}
	})
}
