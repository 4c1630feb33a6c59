package agent

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

// TestHoldBack_SparesTheAgentItself: one that runs as a task of the node and is
// frozen could never thaw itself.
func TestHoldBack_SparesTheAgentItself(t *testing.T) {
	s := newSite(t)
	s.write("side", "cgroup.procs", strconv.Itoa(os.Getpid())+"\n")
	o := s.start()
	s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportFailed, hand.ErrOwn.Error())
	s.carries(o, order(psg.Throttle, 1, 2, batchAlloc), psg.ReportFailed, hand.ErrOwn.Error())
	s.carries(o, entrusted(3), psg.ReportDone, "")
	o.heal(blamed)
	for _, task := range []string{"main", "side"} {
		s.holds(task, "cgroup.freeze", "0")
		s.holds(task, "cpu.max", "max 100000")
	}
}

func TestHoldBack_LeavesWhatItCannotReplace(t *testing.T) {
	s := newSite(t)
	o := s.start()
	first := order(psg.Throttle, 1, 1, batchAlloc)
	first.Limit = psg.Resources{psg.CPU: 1000}
	s.carries(o, first, psg.ReportDone, "")
	if err := os.Remove(filepath.Join(s.groups, "side", "memory.high")); err != nil {
		t.Fatal(err)
	}
	s.carries(o, order(psg.Throttle, 1, 2, batchAlloc), psg.ReportFailed, `task "side"`)
	s.holds("main", "cpu.max", "37500 100000")
	s.holds("side", "cpu.max", "12500 100000")
	if h, found := o.book.find(psg.Throttle, batchAlloc); !found || h.Stamp.Sequence != 1 {
		t.Errorf("in force: %+v, %t", h, found)
	}
	s.carries(o, order(psg.Thaw, 1, 3, batchAlloc), psg.ReportDone, "")
	s.holds("main", "cpu.max", "max 100000")
}

// TestDrain_WaitsForWhoIsThere: an agent that starts does not know yet who is
// left on the node.
func TestDrain_WaitsForWhoIsThere(t *testing.T) {
	s := newSite(t)
	drain := order(psg.Drain, 1, 1, "")
	drain.Deadline = time.Nanosecond
	s.carries(s.start(), drain, psg.ReportBegun, "")
	o := s.start() // the one before was killed, and the deadline has come
	o.sweep(time.Now())
	if len(o.ends) != 2 {
		t.Errorf("%d evictions, want 2", len(o.ends))
	}
}

func TestCarryOut_BoundsWhatItKeeps(t *testing.T) {
	s := newSite(t)
	o := s.start()
	long := strings.Repeat("x", maxID+1)
	s.carries(o, order(psg.Thaw, 1, 1, psg.AllocID(long)), psg.ReportRefused, "more than 512 bytes")
	asked := order(psg.Thaw, 1, 1, batchAlloc)
	asked.Ask = psg.RequestID(long)
	s.carries(o, asked, psg.ReportRefused, "more than 512 bytes")
}

func TestEntrust_RefusesToChargeOneTwice(t *testing.T) {
	s := newSite(t)
	o := s.start()
	m := entrusted(1)
	m.Mandate.Charges = append(m.Mandate.Charges, psg.Charge{Alloc: victimAlloc, Yields: true})
	s.carries(o, m, psg.ReportFailed, "charged twice")
}

func TestProbe_OfWhomNobodyIsChargedWithIsForgotten(t *testing.T) {
	s := newSite(t)
	o := s.start()
	h := o.healer
	s.carries(o, entrusted(1), psg.ReportDone, "")
	h.probe(victimAlloc, time.Second, time.Second)
	if len(h.probed[victimAlloc]) != 1 {
		t.Fatalf("probed: %v", h.probed)
	}
	m := entrusted(2)
	m.Mandate.Charges = m.Mandate.Charges[:1]
	s.carries(o, m, psg.ReportDone, "")
	h.probe(victimAlloc, time.Second, time.Second) // it was under way
	if len(h.probed) > 0 {
		t.Errorf("kept: %v", h.probed)
	}
}

// TestOwnAddress_IsAHostAndANumber: what follows the port would make another
// host of the URL.
func TestOwnAddress_IsAHostAndANumber(t *testing.T) {
	if err := ownAddress("127.0.0.1:80"); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"127.0.0.1:80@192.0.2.1", "127.0.0.1:80/x", "127.0.0.1:http", "127.0.0.1:0", "127.0.0.1:", "127.0.0.1:70000"} {
		if ownAddress(bad) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func TestOpenBook_TrustsNoDirectoryOfOthers(t *testing.T) {
	s := newSite(t)
	if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.Chmod(s.dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewOrders(s.config(), s.to); err == nil || !strings.Contains(err.Error(), "others can write") {
		t.Errorf("a directory of everybody: %v", err)
	}
	if os.Geteuid() != 0 {
		return
	}
	if err := errors.Join(os.Chmod(s.dir, 0o700), os.Chown(s.dir, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewOrders(s.config(), s.to); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("somebody else's directory: %v", err)
	}
}

func TestOpenBook_BoundsLeasesWhateverTheClockSays(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportDone, "")
	s.carries(o, order(psg.Drain, 1, 2, ""), psg.ReportBegun, "")
	o.book.Holds[0].Until = time.Now().Add(24 * time.Hour) // the clock is set back by a day
	o.book.Draining.At = time.Now().Add(24 * time.Hour)
	if err := o.book.save(); err != nil {
		t.Fatal(err)
	}
	o = s.start()
	if left := time.Until(o.book.Holds[0].Until); left > maxFreeze {
		t.Errorf("the freeze lasts %s", left)
	}
	if left := time.Until(o.book.Draining.At); left > maxEnd {
		t.Errorf("the drain lasts %s", left)
	}
	if !strings.Contains(o.book.Holds[0].Until.String(), "m=") {
		t.Error("the lease is by a clock that can be set")
	}
}

// TestKill_EndsWhatForksMeanwhile: a process that is not in the first list.
func TestKill_EndsWhatForksMeanwhile(t *testing.T) {
	s := newSite(t)
	parent, child := exec.Command("sleep", "60"), exec.Command("sleep", "60")
	if err := errors.Join(parent.Start(), child.Start()); err != nil {
		t.Fatal(err)
	}
	s.write("main", "cgroup.procs", strconv.Itoa(parent.Process.Pid)+"\n")
	o := s.start()
	tasks := slices.DeleteFunc(o.tenants.of(batchAlloc), func(task tenant) bool { return task.name != "main" })
	killed := make(chan error, 1)
	go func() { killed <- kill(t.Context(), tasks) }()
	_ = parent.Wait()
	s.write("main", "cgroup.procs", strconv.Itoa(child.Process.Pid)+"\n")
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	select {
	case <-ended:
	case <-time.After(2 * killWithin):
		t.Error("the child lives")
		_ = child.Process.Kill()
		<-ended
	}
	s.write("main", "cgroup.procs", "")
	if err := <-killed; err != nil {
		t.Error(err)
	}
}

// TestCarryOut_AFloodOfOrdersFillsNoLog: each is answered and reported all the same.
func TestCarryOut_AFloodOfOrdersFillsNoLog(t *testing.T) {
	s := newSite(t)
	var logged strings.Builder
	config := s.config()
	config.Log = slog.New(slog.NewTextHandler(&logged, nil))
	o, err := NewOrders(config, s.to)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 500 {
		o.CarryOut(order(psg.Freeze, 1, uint64(i+1), "nobody"))
	}
	seconds := int(time.Since(began)/time.Second) + 1
	if lines := strings.Count(logged.String(), "msg=order "); lines == 0 || lines > 20*(seconds+1) {
		t.Errorf("%d lines are logged in %d s", lines, seconds)
	}
	if _, any := o.reports.first(); !any || o.reports.dropped != 500-config.withDefaults().Reports {
		t.Errorf("%d reports are dropped", o.reports.dropped)
	}
}
