package placement

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

var update = flag.Bool("update", false, "write what the scenarios come to into their files")

// TestScenarios runs the files under testdata. Each is a list of commands; what
// one comes to stands below it between "----" and an empty line:
//
//	node JSON          a node, as what plainNode leaves out says
//	workload JSON      likewise
//	solve JOB N [NODE] asks for N instances, at a node's gate where one is named
//	place JOB N [NODE] the same, and commits the plan
//	preempt JOB N      makes room for a queued instance, or a gang of N
//	improve N          makes at most N moves
//	free ASK           ends one
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := (&scenario{cluster: newCluster(Config{})}).run(t, string(text))
			switch {
			case got == string(text):
			case *update:
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			default:
				t.Errorf("comes to\n%s", got)
			}
		})
	}
}

type scenario struct {
	*cluster
	out strings.Builder
}

// run is the file with what its commands come to now.
func (s *scenario) run(t *testing.T, text string) string {
	within := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "----":
			within = true
		case within:
			within = line != ""
		default:
			fmt.Fprintln(&s.out, line)
			if line != "" && line[0] != '#' {
				s.do(t, strings.Fields(line), line)
			}
		}
	}
	return s.out.String()
}

func (s *scenario) do(t *testing.T, words []string, line string) {
	t.Helper()
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	number, _ := strconv.Atoi(words[len(words)-1])
	if count, err := strconv.Atoi(arg(2)); err == nil {
		number = count
	}
	switch words[0] {
	case "node":
		n := plainNode("")
		s.read(t, line, &n)
		n.Name = string(n.ID)
		s.rows = append(s.rows, n.ID)
		s.Apply(psg.NodeChanged{Node: n})
	case "workload":
		w := plainWorkload("", 1)
		s.read(t, line, &w)
		s.Apply(psg.WorkloadChanged{Workload: w})
	case "free":
		s.Apply(psg.Freed{Ask: psg.RequestID(arg(1)), State: psg.Released, At: at})
	case "solve":
		s.plan(s.solve(s.asks(t, arg(1), number, arg(3))...))
	case "place":
		s.plan(s.commit(s.asks(t, arg(1), number, arg(3))...))
	case "preempt":
		asks := s.asks(t, arg(1), number, "")
		found, refused := s.Preempt(Problem{Now: at, Rows: s.rows}, Sacrifice{Ask: asks[0], Gang: asks})
		s.preemption(found, refused)
	case "improve":
		s.improvement(s.Improve(Problem{Now: at, Rows: s.rows}, number))
	default:
		t.Fatalf("%q is no command", words[0])
	}
}

func (s *scenario) read(t *testing.T, line string, into any) {
	t.Helper()
	_, text, _ := strings.Cut(line, " ")
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// asks are so many of a job that hold no place yet.
func (s *scenario) asks(t *testing.T, job string, n int, node string) []psg.Ask {
	t.Helper()
	w, known := s.workloads[psg.WorkloadID{Namespace: "default", Job: job, Group: "main"}]
	if !known {
		t.Fatalf("job %q is not known", job)
	}
	var asks []psg.Ask
	for _, ask := range asksFor(w.spec, n+len(s.held)) {
		if _, placed := s.held[ask.ID]; !placed && len(asks) < n {
			ask.Node = psg.NodeID(node)
			asks = append(asks, ask)
		}
	}
	return asks
}

func (s *scenario) plan(p psg.Plan) {
	fmt.Fprintln(&s.out, "----")
	for i := range p.Placements {
		s.placement("", &p.Placements[i])
	}
	for i := range p.Refusals {
		s.refusal(&p.Refusals[i])
	}
	fmt.Fprintln(&s.out)
}

func (s *scenario) placement(how string, p *psg.Placement) {
	fmt.Fprintf(&s.out, "%s%s on %s", how, p.Ask.ID, p.Node)
	for _, d := range p.Devices {
		fmt.Fprintf(&s.out, ", %s %d/1000 %s", d.Device, d.MilliGPU, d.Profile)
	}
	for i, part := range p.Score {
		fmt.Fprintf(&s.out, "%s %s %+d", []string{":", ","}[min(i, 1)], part.Name, part.Points)
	}
	fmt.Fprintln(&s.out)
}

func (s *scenario) refusal(r *psg.Refusal) {
	fmt.Fprintf(&s.out, "%s %s: %s\n", r.Ask, r.State, r.Summary)
	for _, x := range r.Excluded {
		fmt.Fprintf(&s.out, "  %d nodes: %s: %s\n", x.Nodes, x.Reason.Source, x.Reason.Text)
	}
	for _, near := range r.Nearest {
		for _, why := range near.Missing {
			fmt.Fprintf(&s.out, "  near %s: %s: %s\n", near.Node, why.Source, why.Text)
		}
	}
	for _, remedy := range r.Remedies {
		fmt.Fprintf(&s.out, "  then on %s: %s\n", remedy.Node, remedy.Text)
	}
}

func (s *scenario) preemption(found Preemption, refused *psg.Refusal) {
	fmt.Fprintln(&s.out, "----")
	if refused != nil {
		s.refusal(refused)
	}
	for i := range found.Victims {
		fmt.Fprintf(&s.out, "ends %s on %s\n", found.Victims[i].Ask.ID, found.Victims[i].Node)
	}
	for i := range found.Placements {
		s.placement("", &found.Placements[i])
	}
	fmt.Fprintln(&s.out)
}

func (s *scenario) improvement(found Improvement) {
	fmt.Fprintln(&s.out, "----")
	for _, move := range found.Moves {
		s.placement(fmt.Sprintf("%+d from %s: ", move.Gain, move.From), &move.Placement)
		s.Apply(psg.Placed{Placement: move.Placement})
		s.Apply(psg.Moved{Ask: move.Placement.Ask.ID, State: psg.Running, At: at})
	}
	fmt.Fprintln(&s.out)
}
