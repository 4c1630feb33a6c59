package incident

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

var (
	incidents = flag.Int("incidents", 0, "incidents per kind and arm to measure; 0 measures none")
	first     = flag.Int("first", 0, "the first block to measure, for a run in parts")
	arms      = flag.String("arms", "baseline,equal,psg", "arms to measure, by comma")
	kinds     = flag.String("kinds", "cpu,memory,io", "kinds of incident to measure, by comma")
	whole     = flag.Int("whole", 5, "blocks for one in which PSG's arm is followed for the minute that the antagonist's work is counted over; 0: none is")
	seed      = flag.Uint64("seed", 1, "of the order, the phases and the ways to stop; one seed gives the same blocks for all arms")
	out       = flag.String("out", "", "file that outcomes are added to, one JSON object a line")
	from      = flag.String("from", "", "files of outcomes, by comma, to report on beside what is measured now")
)

// built are the programs under test, built once.
var built struct{ agent, load string }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "psg-incident-")
	if err == nil {
		defer os.RemoveAll(dir)
		// One test runs the agent as somebody else.
		err = errors.Join(os.Chmod(dir, 0o755), build(context.Background(), dir))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func build(ctx context.Context, dir string) error {
	built.agent, built.load = filepath.Join(dir, "psg-agent"), filepath.Join(dir, "load")
	var failed error
	for program, source := range map[string]string{built.agent: "../../cmd/psg-agent", built.load: "./load"} {
		if output, err := exec.CommandContext(ctx, "go", "build", "-o", program, source).CombinedOutput(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("build %s: %w\n%s", source, err, output))
		}
	}
	return failed
}
