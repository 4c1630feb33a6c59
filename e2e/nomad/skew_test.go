package nomad_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// TestSkew_ChangesNothing runs a controller whose clock is an hour ahead, then
// one whose clock is an hour behind on what the first has left, then a right one.
func TestSkew_ChangesNothing(t *testing.T) {
	g := use(t)
	skewed := buildSkewed(t)
	right, was := g.controller.Nomad, g.controller.Binary
	t.Cleanup(func() {
		g.controller.Nomad, g.controller.Binary = right, was
		g.restart(t)
	})
	g.register(gated("before", 2, classB()))
	g.settled("before", 2)
	through, _ := g.proxied()
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		g.controller.Binary = skewed
		g.controller.Nomad = append([]string{skewVariable + "=" + by.String()}, right...)
		g.restart(t)
		t.Run(by.String(), func(t *testing.T) {
			planned, drawn := fmt.Sprint("planned", by), fmt.Sprint("drawn", by)
			if _, _, err := through.Jobs().Register(gated(planned, 2, classB()), nil); err != nil {
				t.Fatal(err)
			}
			g.register(drawnToA(drawn))
			g.settled(planned, 2)
			g.until(30*time.Second, "it is brought to class b", func() bool {
				on := g.runningOn(drawn)
				return g.total(on) == 1 && on[psg.NodeID(g.nodes[0])] == 0
			})
			g.agreed()
			if n := g.asks("before", psg.Running); n != 2 {
				t.Errorf("of what ran before the controller knows %d, want 2", n)
			}
			if off := g.clockOff(t, planned); (off - by).Abs() > time.Minute {
				t.Errorf("the controller's clock is off by %s, want %s: the test shows nothing", off, by)
			}
		})
	}
	g.controller.Nomad, g.controller.Binary = right, was
	g.restart(t)
	g.agreed()
}

// clockOff is by how much the time differs that the controller has written into
// its plan of a job.
func (g *grid) clockOff(t *testing.T, job string) time.Duration {
	t.Helper()
	asks, err := g.rest.Asks(context.Background(), "default", job)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range asks {
		if strings.HasPrefix(string(s.Ask.ID), "plan/") {
			return time.Until(s.Ask.At)
		}
	}
	t.Fatalf("no plan among %+v", asks)
	return 0
}

// skewVariable holds by how much the clock of a skewed program is off.
const skewVariable = "SKEW"

// buildSkewed builds psg with another source of the time: wherever its own
// packages ask for it, they get one that is off. A process cannot be given
// another clock from outside, as Go does not ask the C library.
func buildSkewed(t *testing.T) string {
	t.Helper()
	const module = "github.com/psgrid/psg/"
	dir := t.TempDir()
	list := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{.Name}} {{.Dir}} {{range .GoFiles}}{{.}},{{end}}", "./cmd/psg")
	list.Dir = programs.Root
	packages, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	overlay := map[string]map[string]string{"Replace": {}}
	for line := range strings.Lines(string(packages)) {
		fields := strings.Fields(line)
		if len(fields) != 4 || !strings.HasPrefix(fields[0], module) {
			continue
		}
		skewPackage(t, dir, fields[1], fields[2], strings.Split(strings.Trim(fields[3], ","), ","), overlay["Replace"])
	}
	if len(overlay["Replace"]) < 10 {
		t.Fatalf("only %d files ask for the time: is the pattern still right?", len(overlay["Replace"]))
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "psg")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", file, "-o", program, "./cmd/psg")
	build.Dir = programs.Root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

var clock = regexp.MustCompile(`\btime\.(Now|Since|Until)\b`)

// skewLines has source text ask for the skewed time, except for what it tells the
// runtime's clock, which is right: deadlines of connections.
func skewLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.Contains(line, "Deadline(time.") {
			line = clock.ReplaceAllString(line, "skewed$1")
		}
		b.WriteString(line)
	}
	return b.String()
}

// skewPackage adds to an overlay the files of a package that ask for the time,
// and one with the answer.
func skewPackage(t *testing.T, dir, name, from string, files []string, overlay map[string]string) {
	t.Helper()
	write := func(at, text string) {
		to := filepath.Join(dir, fmt.Sprint(len(overlay), ".go"))
		if err := os.WriteFile(to, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[filepath.Join(from, at)] = to
	}
	skewed := false
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			t.Fatal(err)
		}
		if clock.Match(text) {
			skewed = true
			write(file, skewLines(string(text))+"\nvar _ time.Time\n")
		}
	}
	if skewed {
		write("skewed.go", "package "+name+`

import (
	"os"
	"time"
)

var skew = func() time.Duration { d, _ := time.ParseDuration(os.Getenv("`+skewVariable+`")); return d }()

func skewedNow() time.Time                    { return time.Now().Add(skew) }
func skewedSince(t time.Time) time.Duration { return skewedNow().Sub(t) }
func skewedUntil(t time.Time) time.Duration { return t.Sub(skewedNow()) }
`)
	}
}
