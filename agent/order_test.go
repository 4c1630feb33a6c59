package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
)

const (
	batchAlloc  = psg.AllocID("5b30f18b-4537-2aa2-8818-2ca29c741960")
	victimAlloc = psg.AllocID("9f25a230-f957-ee0d-a9fc-d4893162efc8")
)

// reporter keeps reports, and fails while it is away.
type reporter struct {
	mu   sync.Mutex
	away error
	got  []psg.Report
}

func (r *reporter) Report(_ context.Context, report psg.Report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away == nil {
		r.got = append(r.got, report)
	}
	return r.away
}

func (r *reporter) reports() []psg.Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]psg.Report(nil), r.got...)
}

// site is a node whose control groups are files: two tasks of one allocation,
// and one of another.
type site struct {
	*testing.T
	dir    string // of the journal
	groups string // of the tasks
	to     *reporter
}

func newSite(t *testing.T) *site {
	s := &site{T: t, dir: filepath.Join(t.TempDir(), "journal"), groups: t.TempDir(), to: &reporter{}}
	for _, task := range []string{"main", "side", "victim"} {
		for name, content := range map[string]string{
			"cpu.max": "max 100000\n", "memory.high": "max\n", "io.max": "", "cgroup.freeze": "0\n", "cgroup.procs": "",
		} {
			s.write(task, name, content)
		}
	}
	s.write("proc", "cpuinfo", "processor\t: 0\ncpu MHz\t\t: 2000.0\n\nprocessor\t: 1\ncpu MHz\t\t: 1000.0\n")
	s.write("sys/block/sda", "dev", "8:0\n")
	return s
}

// write replaces a task's file at once, as the kernel does: nobody reads it empty.
func (s *site) write(task, name, content string) {
	s.Helper()
	file := filepath.Join(s.groups, task, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file+".next", []byte(content), 0o644), os.Rename(file+".next", file))
	if err != nil {
		s.Fatal(err)
	}
}

// holds fails unless a task's file begins with what is wanted.
func (s *site) holds(task, name, want string) {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.groups, task, name))
	if err != nil || strings.TrimSpace(string(data)) != want {
		s.Errorf("%s/%s holds %q, want %q (%v)", task, name, strings.TrimSpace(string(data)), want, err)
	}
}

func (s *site) config() OrdersConfig {
	return OrdersConfig{
		Node: "n1", Log: slog.New(slog.DiscardHandler), Dir: s.dir,
		Proc: filepath.Join(s.groups, "proc"), Sys: filepath.Join(s.groups, "sys"),
	}
}

// start is an agent's orders, as at its start.
func (s *site) start() *Orders {
	s.Helper()
	o, err := NewOrders(s.config(), s.to)
	if err != nil {
		s.Fatal(err)
	}
	o.tenants.see([]Use{s.use(batchAlloc, "main", 75), s.use(batchAlloc, "side", 25), s.use(victimAlloc, "victim", 10)})
	return o
}

func (s *site) use(alloc psg.AllocID, task string, cpu float64) Use {
	dir := filepath.Join(s.groups, task)
	return Use{
		Alloc: alloc, Task: task, CPUPercent: cpu,
		Cgroups: Cgroups{Unified: true, CPU: dir, CPUAcct: dir, Memory: dir, IO: dir, Freezer: dir},
	}
}

func order(kind psg.OrderKind, epoch psg.Epoch, sequence uint64, alloc psg.AllocID) psg.Order {
	o := psg.Order{Kind: kind, Epoch: epoch, Sequence: sequence, Alloc: alloc, Node: "n1", Ask: "ask"}
	if kind == psg.Throttle {
		o.Limit = psg.Resources{psg.CPU: 1000, psg.Memory: 64, psg.IOPS: 50}
	}
	return o
}

// carries fails unless an order ends in a state, with a reason that says why.
func (s *site) carries(o *Orders, order psg.Order, state psg.ReportState, reason string) psg.Report {
	s.Helper()
	r := o.CarryOut(order)
	if r.State != state || !strings.Contains(r.Reason, reason) || r.Node != "n1" || r.Sequence != order.Sequence {
		s.Errorf("%s %d/%d of %q: %+v; want %s, %q", order.Kind, order.Epoch, order.Sequence, order.Alloc, r, state, reason)
	}
	return r
}

func TestCarryOut_ThrottlesFreezesAndThaws(t *testing.T) {
	s := newSite(t)
	o := s.start()
	r := s.carries(o, order(psg.Throttle, 1, 1, batchAlloc), psg.ReportDone, "")
	if wait := time.Until(r.Until); wait < 50*time.Second || wait > time.Minute {
		t.Errorf("it holds for %s, want a minute", wait)
	}
	s.holds("main", "cpu.max", "37500 100000") // of 1000 MHz, half a core: what it uses of it
	s.holds("side", "cpu.max", "12500 100000")
	s.holds("main", "memory.high", "67108864")
	s.holds("main", "io.max", "8:0 rbps=max wbps=max riops=50 wiops=50")
	s.carries(o, order(psg.Freeze, 1, 2, batchAlloc), psg.ReportDone, "")
	s.holds("side", "cgroup.freeze", "1")
	s.holds("victim", "cgroup.freeze", "0")

	tighter := order(psg.Throttle, 1, 3, batchAlloc)
	tighter.Limit = psg.Resources{psg.CPU: 4000}
	s.carries(o, tighter, psg.ReportDone, "") // replaces the first, looser or not
	s.holds("main", "cpu.max", "150000 100000")
	s.holds("main", "memory.high", "max")

	s.carries(o, order(psg.Thaw, 1, 4, batchAlloc), psg.ReportDone, "")
	s.holds("main", "cpu.max", "max 100000")
	s.holds("side", "cgroup.freeze", "0")
}

func TestCarryOut_OnceForEachOrder(t *testing.T) {
	s := newSite(t)
	o := s.start()
	first := s.carries(o, order(psg.Freeze, 2, 5, batchAlloc), psg.ReportDone, "")
	s.write("main", "cgroup.freeze", "0\n") // as if somebody had thawed it
	if again := o.CarryOut(order(psg.Freeze, 2, 5, batchAlloc)); again != first {
		t.Errorf("repeated: %+v, at first %+v", again, first)
	}
	s.holds("main", "cgroup.freeze", "0")
	s.carries(o, order(psg.Thaw, 2, 5, batchAlloc), psg.ReportRefused, "came later")
	s.carries(o, order(psg.Throttle, 2, 4, batchAlloc), psg.ReportRefused, "order 5 of epoch 2 came later")
	s.carries(o, order(psg.Freeze, 2, 1, victimAlloc), psg.ReportDone, "") // another's count is its own
	s.carries(o, order(psg.Thaw, 2, 6, ""), psg.ReportDone, "")
	s.carries(o, order(psg.Freeze, 2, 5, victimAlloc), psg.ReportRefused, "to thaw all")
	s.holds("victim", "cgroup.freeze", "0")
}

func TestCarryOut_RefusesAStaleEpoch_AlsoAfterARestart(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, order(psg.Freeze, 7, 1, victimAlloc), psg.ReportDone, "")
	s.carries(o, order(psg.Freeze, 6, 900, batchAlloc), psg.ReportRefused, "epoch 6 is over: epoch 7 leads")
	o = s.start()
	s.carries(o, order(psg.Freeze, 6, 901, batchAlloc), psg.ReportRefused, "epoch 6 is over")
	s.holds("main", "cgroup.freeze", "0")
	s.carries(o, order(psg.Freeze, 8, 1, batchAlloc), psg.ReportDone, "")
}

func TestCarryOut_RefusesWhatMakesNoSense(t *testing.T) {
	s := newSite(t)
	o := s.start()
	for want, spoil := range map[string]func(*psg.Order){
		"for node":                func(o *psg.Order) { o.Node = "n2" },
		"is not for a node's":     func(o *psg.Order) { o.Kind = psg.Grant },
		`"conquer" is not for`:    func(o *psg.Order) { o.Kind = "conquer" },
		"no epoch":                func(o *psg.Order) { o.Epoch = 0 },
		"no sequence":             func(o *psg.Order) { o.Sequence = 0 },
		"no allocation":           func(o *psg.Order) { o.Alloc = "" },
		"outside 0..10m0s":        func(o *psg.Order) { o.Deadline = time.Hour },
		"-1s is outside":          func(o *psg.Order) { o.Deadline = -time.Second },
		"no mandate":              func(o *psg.Order) { o.Kind, o.Alloc = psg.Entrust, "" },
		"not about an allocation": func(o *psg.Order) { o.Kind = psg.Drain },
	} {
		bad := order(psg.Freeze, 1, 1, batchAlloc)
		spoil(&bad)
		s.carries(o, bad, psg.ReportRefused, want)
	}
	fails := func(want string, bad psg.Order) {
		t.Helper()
		s.carries(o, bad, psg.ReportFailed, want)
	}
	fails("no such allocation", order(psg.Freeze, 1, 1, "stranger"))
	fails("no such allocation", order(psg.Evict, 1, 2, "stranger"))
	network := order(psg.Throttle, 1, 3, batchAlloc)
	network.Limit = psg.Resources{psg.Network: 5}
	fails("network_mbits=5: only CPU", network)
	network.Limit, network.Sequence = psg.Resources{}, 4
	fails("without a limit", network)
	mandate := order(psg.Entrust, 1, 5, "")
	mandate.Mandate = &psg.Mandate{}
	fails("0 MHz", mandate)
	mandate.Mandate, mandate.Sequence = &psg.Mandate{CPU: 1, Charges: []psg.Charge{{Alloc: "a", Protected: true, Yields: true}}}, 6
	fails("both protected and to yield", mandate)
	mandate.Mandate, mandate.Sequence = &psg.Mandate{CPU: 1, Charges: []psg.Charge{{Alloc: "a", Protected: true, Probe: &psg.Probe{Port: "1"}}}}, 7
	fails("probe of a: interval", mandate)
	s.holds("main", "cgroup.freeze", "0")
}

func TestCarryOut_AllOrNothing(t *testing.T) {
	s := newSite(t)
	o := s.start()
	if err := os.Remove(filepath.Join(s.groups, "side", "memory.high")); err != nil {
		t.Fatal(err)
	}
	s.carries(o, order(psg.Throttle, 1, 1, batchAlloc), psg.ReportFailed, `task "side"`)
	s.holds("main", "cpu.max", "max 100000")
	if len(o.book.Holds) > 0 {
		t.Errorf("in force: %+v", o.book.Holds)
	}
}

func TestCarryOut_NothingWithoutAJournal(t *testing.T) {
	s := newSite(t)
	o := s.start()
	if err := os.RemoveAll(s.dir); err != nil {
		t.Fatal(err)
	}
	s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportFailed, "write journal")
	s.holds("main", "cgroup.freeze", "0")
}

func TestSweep_UndoesWhatIsPastItsLease(t *testing.T) {
	s := newSite(t)
	o := s.start()
	short := order(psg.Freeze, 1, 1, batchAlloc)
	short.Deadline = 5 * time.Second
	s.carries(o, short, psg.ReportDone, "")
	o.sweep(time.Now().Add(4 * time.Second))
	s.holds("main", "cgroup.freeze", "1")
	o.sweep(time.Now().Add(6 * time.Second))
	s.holds("main", "cgroup.freeze", "0")
	if _, found := o.book.find(psg.Freeze, batchAlloc); found {
		t.Error("it is still in the book")
	}
}

// TestNewOrders_UndoesWhatAKilledAgentLeft: nothing stays frozen for ever.
func TestNewOrders_UndoesWhatAKilledAgentLeft(t *testing.T) {
	s := newSite(t)
	o := s.start()
	brief, long := order(psg.Freeze, 1, 1, batchAlloc), order(psg.Throttle, 1, 1, victimAlloc)
	brief.Deadline, long.Deadline = time.Nanosecond, time.Hour
	s.carries(o, brief, psg.ReportDone, "")
	first := s.carries(o, long, psg.ReportDone, "")

	o = s.start() // the one before was killed
	s.holds("main", "cgroup.freeze", "0")
	s.holds("side", "cgroup.freeze", "0")
	s.holds("victim", "cpu.max", "50000 100000") // its lease lasts
	if again := o.CarryOut(long); !again.At.Equal(first.At) || again.State != psg.ReportDone {
		t.Errorf("the repeated order is answered %+v, at first %+v", again, first)
	}
	if err := o.Undo("the test ends"); err != nil {
		t.Fatal(err)
	}
	s.holds("victim", "cpu.max", "max 100000")
}

func TestNewOrders_BetweenJournalAndGroup(t *testing.T) {
	s := newSite(t)
	o := s.start()
	s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportDone, "")
	s.write("main", "cgroup.freeze", "0\n") // killed before this was written
	if err := s.start().Undo("the test ends"); err != nil {
		t.Fatal(err)
	}
	s.holds("main", "cgroup.freeze", "0")
	s.holds("side", "cgroup.freeze", "0")
}

func TestNewOrders_SaysWhatIsWrong(t *testing.T) {
	s := newSite(t)
	if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.WriteFile(filepath.Join(s.dir, journalFile), []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := NewOrders(s.config(), s.to); err == nil || !strings.Contains(err.Error(), journalFile) {
		t.Errorf("a broken journal: %v", err)
	}
	for want, spoil := range map[string]func(*OrdersConfig){
		"no node ID": func(c *OrdersConfig) { c.Node = "" }, "no logger": func(c *OrdersConfig) { c.Log = nil },
		"no directory": func(c *OrdersConfig) { c.Dir = "" }, `healing "maybe"`: func(c *OrdersConfig) { c.Healing = "maybe" },
		"room for -1 reports": func(c *OrdersConfig) { c.Reports = -1 },
	} {
		config := s.config()
		spoil(&config)
		if _, err := NewOrders(config, s.to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestDrain_EvictsWhoIsLeftAtItsDeadline(t *testing.T) {
	s := newSite(t)
	o := s.start()
	drain := order(psg.Drain, 1, 1, "")
	drain.Deadline = 10 * time.Second
	s.carries(o, drain, psg.ReportBegun, "")
	o.sweep(time.Now())
	if len(o.ends) > 0 || !o.book.drains.Load() {
		t.Fatal("evicted at once, or not draining")
	}
	o = s.start() // it drains after a restart too
	o.sweep(time.Now().Add(11 * time.Second))
	if len(o.ends) != 2 || !o.book.drains.Load() {
		t.Errorf("%d evictions, want 2", len(o.ends))
	}
	o.sweep(time.Now().Add(12 * time.Second))
	if len(o.ends) != 2 {
		t.Error("evicted once more")
	}
	s.carries(o, order(psg.Thaw, 1, 2, ""), psg.ReportDone, "")
	if o.book.drains.Load() {
		t.Error("it still drains")
	}
}

func TestBook_ForgetsTheOldestAnswers(t *testing.T) {
	s := newSite(t)
	o := s.start()
	for i := range maxAnswers + 50 {
		o.CarryOut(order(psg.Thaw, 1, 1, psg.AllocID(fmt.Sprintf("a%04d", i))))
	}
	if len(o.book.Answers) != maxAnswers {
		t.Errorf("%d answers are kept", len(o.book.Answers))
	}
	if _, kept := o.book.Answers["a0000"]; kept {
		t.Error("the oldest was kept")
	}
}

func TestRun_ReportsInOrderOnceItCanAndUndoesAtItsEnd(t *testing.T) {
	s := newSite(t)
	s.to.away = errors.New("no bus")
	o := s.start()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- o.Run(ctx) }()
	s.carries(o, order(psg.Freeze, 1, 1, batchAlloc), psg.ReportDone, "")
	s.carries(o, order(psg.Throttle, 1, 2, victimAlloc), psg.ReportDone, "")
	s.to.mu.Lock()
	s.to.away = nil
	s.to.mu.Unlock()
	eventually(t, "both are reported", func() bool { return len(s.to.reports()) == 2 })
	if got := s.to.reports(); got[0].Kind != psg.Freeze || got[1].Kind != psg.Throttle {
		t.Errorf("reported %+v", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	s.holds("main", "cgroup.freeze", "0")
	s.holds("victim", "cpu.max", "max 100000")
}

func TestReports_KeepTheNewest(t *testing.T) {
	b := newReportBox(3)
	for i := range uint64(5) {
		b.put(psg.Report{Sequence: i})
	}
	for want := uint64(2); want < 5; want++ {
		r, ok := b.first()
		if !ok || r.Sequence != want {
			t.Fatalf("report %d, want %d", r.Sequence, want)
		}
		b.taken(r)
	}
	if _, ok := b.first(); ok {
		t.Error("more than three were kept")
	}
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for limit := time.After(20 * time.Second); !done(); {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("not in time: %s", what)
		}
	}
}
