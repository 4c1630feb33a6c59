// Package footprint measures what psg-agent costs the node that it runs on: the
// built binary, the real kernel's control groups, a real NATS server. `make
// bench-agent` runs it.
package footprint

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var (
	duration  = flag.Duration("for", 5*time.Second, "how long to measure")
	workloads = flag.Int("workloads", 100, "control groups with a process each")
	// Nomad's raw_exec and PSG's run mode make groups on three of them.
	controllers = flag.String("controllers", "cpu,cpuacct,memory,blkio,freezer", "of version 1, on which each workload has a group")
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(m.Run())
}

// build compiles a command of this module and installs it: a copy is what a node
// runs. Of a file that the system's linker has just written Linux 6.18 maps all in
// the page cache with the first page that is touched, 10 MB that are not needed.
func build(t *testing.T, command string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(command))
	linked := path + ".linked"
	if out, err := exec.Command("go", "build", "-o", linked, "github.com/psgrid/psg/"+command).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	if out, err := exec.Command("install", linked, path).CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", command, err, out)
	}
	return path
}
