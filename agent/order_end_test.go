package agent

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

// doomed is a real process in a freezer group of its own, which is removed when the
// test ends.
type doomed struct {
	dir   string
	lines *bufio.Reader // what it prints
	ended chan struct{}
}

// newDoomed runs a script that prints a line when it listens to signals.
func newDoomed(t *testing.T, script string) *doomed {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: control groups need root")
	}
	d := &doomed{dir: "/sys/fs/cgroup/freezer/psg-evict-test-" + strconv.Itoa(os.Getpid()), ended: make(chan struct{})}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		t.Skipf("SKIPPED: no freezer of version 1: %v", err)
	}
	process := exec.Command("sh", "-c", script)
	out, in := io.Pipe()
	process.Stdout, d.lines = in, bufio.NewReader(out)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = process.Wait()
		in.Close()
	}()
	t.Cleanup(func() {
		_ = process.Process.Kill()
		out.Close()
		<-d.ended
		eventually(t, d.dir+" is removed", func() bool { err := os.Remove(d.dir); return err == nil || errors.Is(err, os.ErrNotExist) })
	})
	if err := os.WriteFile(d.dir+"/cgroup.procs", []byte(strconv.Itoa(process.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := d.lines.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *doomed) uses() []Use {
	return []Use{{Alloc: batchAlloc, Task: "main", Cgroups: Cgroups{Freezer: d.dir}}}
}

// runs runs an agent's orders; stop ends that as a kill would, but for its holds.
func runs(t *testing.T, o *Orders) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// evicted waits for the report that an eviction is over.
func (s *site) evicted() psg.Report {
	s.Helper()
	var last psg.Report
	eventually(s.T, "the end is reported", func() bool {
		got := s.to.reports()
		if len(got) > 0 {
			last = got[len(got)-1]
		}
		return last.State == psg.ReportDone && last.Kind == psg.Evict
	})
	return last
}

func TestEvict_EndsRealProcesses(t *testing.T) {
	for name, test := range map[string]struct{ script, reason string }{
		"gracefully": {"trap 'exit 0' TERM; echo; while :; do sleep 0.05; done", ""},
		"by force":   {"trap '' TERM; echo; while :; do sleep 0.05; done", "by force"},
	} {
		t.Run(name, func(t *testing.T) {
			d, s := newDoomed(t, test.script), newSite(t)
			o := s.start()
			o.tenants.see(d.uses())
			stop := runs(t, o)
			s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportDone, "") // it must hear of its end all the same
			evict := order(psg.Evict, 1, 2, batchAlloc)
			evict.Deadline = 500 * time.Millisecond
			s.carries(o, evict, psg.ReportBegun, "")
			<-d.ended
			if got := s.evicted(); !strings.Contains(got.Reason, test.reason) {
				t.Errorf("reported %+v", got)
			}
			stop()
			if left := s.start().resumed; len(left) > 0 {
				t.Errorf("the next agent would evict again: %+v", left)
			}
		})
	}
}

// TestEvict_OfAKilledAgentGoesOn: the next agent does not tell the task again, and
// does not forget its deadline; a repeated order is answered as before.
func TestEvict_OfAKilledAgentGoesOn(t *testing.T) {
	d, s := newDoomed(t, "trap 'echo told' TERM; echo; while :; do sleep 0.05; done"), newSite(t)
	first := s.start()
	first.tenants.see(d.uses())
	stop := runs(t, first)
	evict := order(psg.Evict, 1, 2, batchAlloc)
	evict.Deadline = time.Hour
	s.carries(first, evict, psg.ReportBegun, "")
	if line, err := d.lines.ReadString('\n'); err != nil || line != "told\n" {
		t.Fatalf("it printed %q, %v", line, err)
	}
	eventually(t, "that is in the journal", func() bool {
		first.mu.Lock()
		defer first.mu.Unlock()
		return len(first.book.Endings) == 1 && first.book.Endings[0].Told
	})
	stop()
	if got := s.to.reports(); len(got) != 1 || got[0].State != psg.ReportBegun {
		t.Fatalf("reported %+v, want that it is under way", got)
	}

	second := s.start()
	if len(second.resumed) != 1 {
		t.Fatalf("it goes on with %+v", second.resumed)
	}
	second.resumed[0].By = time.Now() // the hour is over
	second.tenants.see(d.uses())
	stop = runs(t, second)
	<-d.ended
	if got := s.evicted(); !strings.Contains(got.Reason, "by force") || got.Sequence != 2 || got.Ask != evict.Ask {
		t.Errorf("reported %+v", got)
	}
	s.carries(second, evict, psg.ReportBegun, "")
	stop()
	if rest, _ := io.ReadAll(d.lines); len(rest) > 0 {
		t.Errorf("the task was told again: %q", rest)
	}
	if left := s.start().book.Endings; len(left) > 0 {
		t.Errorf("in the journal is %+v", left)
	}
}

// TestEvict_OfAKilledAgentWhoseTaskHasEnded: its end is reported all the same, once
// it is known who runs here.
func TestEvict_OfAKilledAgentWhoseTaskHasEnded(t *testing.T) {
	s := newSite(t)
	s.carries(s.start(), order(psg.Evict, 1, 2, batchAlloc), psg.ReportBegun, "")
	next, err := NewOrders(s.config(), s.to) // the one before was killed before it told anybody
	if err != nil {
		t.Fatal(err)
	}
	stop := runs(t, next)
	defer stop()
	next.tenants.see(nil)
	if got := s.evicted(); got.Reason != "" || got.Alloc != batchAlloc {
		t.Errorf("reported %+v", got)
	}
}
