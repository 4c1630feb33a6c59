package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
	"github.com/psgrid/psg/agent/heal"
)

// entrusted is a mandate over the site: 4000 MHz are its two cores.
func entrusted(sequence uint64) psg.Order {
	o := order(psg.Entrust, 1, sequence, "")
	o.Deadline = 30 * time.Second
	o.Mandate = &psg.Mandate{CPU: 4000, Charges: []psg.Charge{
		{Alloc: batchAlloc, Yields: true, Floor: psg.Resources{psg.CPU: 800, psg.Memory: 32}},
		{Alloc: victimAlloc, Protected: true, Probe: &psg.Probe{Port: "1", Interval: time.Second, Objective: time.Millisecond}},
	}}
	return o
}

var blamed = heal.Act{
	Alloc: batchAlloc, Hold: true, What: [heal.Resources]bool{heal.CPU: true, heal.Memory: true, heal.IO: true},
	For: victimAlloc, Why: "it uses much more than usual",
}

// told is the last report.
func (s *site) told(o *Orders) psg.Report {
	s.Helper()
	o.reports.mu.Lock()
	defer o.reports.mu.Unlock()
	if len(o.reports.reports) == 0 {
		s.Fatal("nothing was told")
	}
	return o.reports.reports[len(o.reports.reports)-1]
}

func TestHeal_ThrottlesToTheFloorAndLetsGo(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, entrusted(3), psg.ReportDone, "")
	o.heal(blamed)
	s.holds("main", "cpu.max", "30000 100000") // 800 of 4000 MHz are 0.4 of two cores; it uses three quarters
	s.holds("side", "cpu.max", "10000 100000")
	s.holds("main", "memory.high", "33554432")
	s.holds("main", "io.max", "8:0 rbps=1048576 wbps=1048576 riops=max wiops=max")
	if r := s.told(o); !r.Unasked || r.Kind != psg.Throttle || r.State != psg.ReportDone || r.Sequence != 3 || r.Reason != blamed.Why {
		t.Errorf("told %+v", r)
	}
	o.heal(heal.Act{Alloc: batchAlloc, Why: "held for 15s"})
	s.holds("main", "cpu.max", "max 100000")
	if r := s.told(o); r.State != psg.ReportUndone || r.Reason != "held for 15s" {
		t.Errorf("told %+v", r)
	}
}

func TestHeal_EndsWithTheMandate(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, entrusted(1), psg.ReportDone, "")
	o.heal(blamed)
	o.sweep(time.Now().Add(29 * time.Second))
	s.holds("main", "cpu.max", "30000 100000")
	o.sweep(time.Now().Add(31 * time.Second)) // the leader is lost
	s.holds("main", "cpu.max", "max 100000")
	o.heal(blamed)
	s.holds("main", "cpu.max", "max 100000")
}

func TestHeal_OfAKilledAgentEndsWithNoMandate(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, entrusted(1), psg.ReportDone, "")
	o.heal(blamed)
	s.start() // the one before was killed, and nobody has entrusted this one yet
	s.holds("main", "cpu.max", "max 100000")
}

func TestHeal_YieldsToOrders(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, entrusted(1), psg.ReportDone, "")
	s.carries(o, order(psg.Throttle, 1, 2, batchAlloc), psg.ReportDone, "")
	o.heal(blamed)
	if r := s.told(o); r.State != psg.ReportRefused || !strings.Contains(r.Reason, "by order already") {
		t.Errorf("told %+v", r)
	}
	s.holds("main", "cpu.max", "37500 100000") // 1000 of 4000 MHz, by the mandate
	o.heal(heal.Act{Alloc: batchAlloc})
	s.holds("main", "cpu.max", "37500 100000")
}

// TestHeal_InWhatItCan: Nomad's raw_exec has no control group for I/O on version 1.
func TestHeal_InWhatItCan(t *testing.T) {
	s := newSite(t)
	o := s.start()
	bare := s.use(batchAlloc, "main", 75)
	bare.Cgroups.IO = ""
	o.tenants.see([]Use{bare})
	s.carries(o, entrusted(1), psg.ReportDone, "")
	disk := blamed
	disk.What = [heal.Resources]bool{heal.IO: true}
	o.heal(disk)
	s.holds("main", "cpu.max", "2000 100000")
	s.holds("main", "io.max", "")
	if r := s.told(o); r.State != psg.ReportDone {
		t.Errorf("told %+v", r)
	}
}

// busyMemory has writes of memory limits fail as the kernel does, unless the task
// stands still and that is enough.
func (s *site) busyMemory(o *Orders, enough bool) {
	o.write = func(w hand.Write) error {
		frozen, err := os.ReadFile(filepath.Join(filepath.Dir(w.File), "cgroup.freeze"))
		if err != nil {
			return err
		}
		if still := strings.TrimSpace(string(frozen)) == "1"; filepath.Base(w.File) == "memory.high" && !(still && enough) {
			return fmt.Errorf("write %s: %w", w.File, syscall.EBUSY)
		}
		return hand.Do(w)
	}
}

// TestHeal_WhereMemoryIsBusy: the limit is set while the neighbour stands still; if
// even then the kernel cannot reclaim down to it, it is held at its floor of CPU.
func TestHeal_WhereMemoryIsBusy(t *testing.T) {
	memory := blamed
	memory.What = [heal.Resources]bool{heal.Memory: true}
	for _, test := range []struct {
		enough      bool
		memory, cpu string
	}{{true, "33554432", "max 100000"}, {false, "max", "30000 100000"}} {
		s := newSite(t)
		o := s.start()
		s.carries(o, entrusted(1), psg.ReportDone, "")
		s.busyMemory(o, test.enough)
		o.heal(memory)
		if r := s.told(o); r.State != psg.ReportDone {
			t.Errorf("told %+v", r)
		}
		s.holds("main", "memory.high", test.memory)
		s.holds("main", "cpu.max", test.cpu)
		s.holds("main", "cgroup.freeze", "0")
		s.holds("side", "cgroup.freeze", "0")
		o.heal(heal.Act{Alloc: batchAlloc, Why: "held for 15s"})
		s.holds("main", "memory.high", "max")
		s.holds("main", "cpu.max", "max 100000")
	}
}

func TestHeal_OnlyReports(t *testing.T) {
	s := newSite(t)
	config := s.config()
	config.Healing = HealReport
	o, err := NewOrders(config, s.to)
	if err != nil {
		t.Fatal(err)
	}
	o.tenants.see([]Use{s.use(batchAlloc, "main", 75)})
	s.carries(o, entrusted(1), psg.ReportDone, "")
	o.heal(blamed)
	s.holds("main", "cpu.max", "max 100000")
	if r := s.told(o); r.State != psg.ReportRefused || !strings.Contains(r.Reason, "only reports") {
		t.Errorf("told %+v", r)
	}
}

func TestEntrust_IsNotToldWhenAllIsWell(t *testing.T) {
	s := newSite(t)
	o := s.start()
	for sequence := range uint64(5) {
		s.carries(o, entrusted(sequence+1), psg.ReportDone, "")
	}
	if r, any := o.reports.first(); any {
		t.Errorf("told %+v", r)
	}
}

// probed runs a probe and returns what it has measured so far.
func probed(t *testing.T, p psg.Probe, tasks []tenant) (took func() []time.Duration) {
	t.Helper()
	h := newHealer(OrdersConfig{Node: "n1", Log: slog.New(slog.DiscardHandler)}.withDefaults())
	h.floors = map[psg.AllocID]psg.Resources{victimAlloc: {}} // it is charged with it
	var of tenants
	of.tasks = tasks
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); h.keepProbing(ctx, victimAlloc, p, &of) }()
	t.Cleanup(func() { stop(); <-ended })
	return func() []time.Duration {
		h.mu.Lock()
		defer h.mu.Unlock()
		return append([]time.Duration(nil), h.probed[victimAlloc]...)
	}
}

func TestProbe_MeasuresHTTPAndTimesOut(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stuck" {
			<-release
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	defer close(release)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())

	took := probed(t, psg.Probe{Port: port, Path: "/well", Interval: 50 * time.Millisecond, Objective: 5 * time.Second}, nil)
	eventually(t, "three answers", func() bool { return len(took()) >= 3 })
	for _, one := range took() {
		if one <= 0 || one > 5*time.Second {
			t.Errorf("it took %s", one)
		}
	}
	took = probed(t, psg.Probe{Port: port, Path: "/stuck", Interval: 50 * time.Millisecond, Objective: 20 * time.Millisecond}, nil)
	eventually(t, "timeouts", func() bool { return len(took()) >= 3 })
	for _, one := range took() {
		if one <= 20*time.Millisecond {
			t.Errorf("a timeout counts as %s", one)
		}
	}
	// Nobody waits for the minute in which it might answer.
	took = probed(t, psg.Probe{Port: port, Path: "/stuck", Interval: time.Minute, Objective: 20 * time.Millisecond}, nil)
	eventually(t, "an answer that is late already", func() bool { return len(took()) == 1 })
	took = probed(t, psg.Probe{Port: port, Interval: 50 * time.Millisecond, Objective: time.Second}, nil)
	eventually(t, "a connection", func() bool { return len(took()) >= 1 })
}

func TestProbe_OfAClosedPortSaysNothing(t *testing.T) {
	h := newHealer(OrdersConfig{Node: "n1", Log: slog.New(slog.DiscardHandler)}.withDefaults())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	p := psg.Probe{Port: port, Path: "/", Interval: time.Second, Objective: time.Millisecond}
	ask := newAsker(p)
	defer ask.close()
	address, err := h.whereabouts(p.Port, nil)
	if err != nil {
		t.Fatal(err)
	}
	if took, err := ask.ask(t.Context(), address); err == nil {
		t.Errorf("a closed port answers in %s", took)
	}
}

// TestWhereabouts_AreTheNodesOwn: a port's label is looked up in what Nomad told
// the task, and the agent calls no other machine for a job.
func TestWhereabouts_AreTheNodesOwn(t *testing.T) {
	s := newSite(t)
	h := newHealer(OrdersConfig{Node: "n1", Log: slog.New(slog.DiscardHandler)}.withDefaults())
	sleeper := exec.Command("sleep", "60")
	sleeper.Env = append(os.Environ(), "NOMAD_HOST_ADDR_http=127.0.0.1:8080", "NOMAD_HOST_ADDR_far_away=192.0.2.1:80", "NOMAD_HOST_ADDR_name=localhost:80")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() }()
	s.write("victim", "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)+"\n")
	o := s.start()
	tasks := o.tenants.of(victimAlloc)
	eventually(t, "it has become what it is", func() bool { _, err := h.whereabouts("http", tasks); return err == nil })
	for port, want := range map[string]string{"http": "127.0.0.1:8080", "9090": "127.0.0.1:9090"} {
		if got, err := h.whereabouts(port, tasks); err != nil || got != want {
			t.Errorf("%s is at %q, %v", port, got, err)
		}
	}
	for port, want := range map[string]string{"far-away": "not an address of this node", "name": "not an IP address", "grpc": "no task"} {
		if got, err := h.whereabouts(port, tasks); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is at %q, %v", port, got, err)
		}
	}
}

func TestRunProbes_FollowTheMandate(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	s := newSite(t)
	o := s.start()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	defer func() { stop(); <-ended }()
	mandate := entrusted(1)
	mandate.Mandate.Charges[1].Probe = &psg.Probe{Port: port, Path: "/", Interval: 50 * time.Millisecond, Objective: time.Nanosecond}
	s.carries(o, mandate, psg.ReportDone, "")
	answers := func() int { o.healer.mu.Lock(); defer o.healer.mu.Unlock(); return len(o.healer.probed[victimAlloc]) }
	eventually(t, "it is probed", func() bool { return answers() > 2 })
	select {
	case <-o.urgent():
	default:
		t.Error("slow answers are not urgent")
	}
	mandate = entrusted(2)
	mandate.Mandate.Charges = mandate.Mandate.Charges[:1]
	s.carries(o, mandate, psg.ReportDone, "")
	if wanted := o.healer.wanted(); len(wanted) != 0 {
		t.Errorf("still wanted: %+v", wanted)
	}
}
