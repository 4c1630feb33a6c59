package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/server"
	"github.com/psgrid/psg/ledger"
	"github.com/psgrid/psg/policies"
)

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// world is a controller on a real log with real policies, driven cycle by
// cycle on virtual time.
type world struct {
	*testing.T
	*Controller
	log *flakyLog
	now time.Time
}

// jobs is what Nomad would know.
type jobs map[psg.WorkloadID]psg.Workload

func (j jobs) Workload(_ context.Context, id psg.WorkloadID) (psg.Workload, error) {
	w, ok := j[id]
	if !ok {
		return psg.Workload{}, fmt.Errorf("job %q: %w", id.Job, psg.ErrUnknown)
	}
	return w, nil
}

// flakyLog fails appends on demand: before they reach the log, or after.
type flakyLog struct {
	Log
	mu         sync.Mutex
	failBefore error
	failAfter  error
	most       int // deltas in one record, if set: a small max_payload
}

// Check knows the small max_payload too.
func (l *flakyLog) Check(deltas ...psg.Delta) error {
	if l.most > 0 && len(deltas) > l.most {
		return fmt.Errorf("%d deltas: %w", len(deltas), psg.ErrInvalid)
	}
	return l.Log.Check(deltas...)
}

func (l *flakyLog) fail(before, after error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failBefore, l.failAfter = before, after
}

func (l *flakyLog) Append(ctx context.Context, r psg.Record) error {
	l.mu.Lock()
	before, after := l.failBefore, l.failAfter
	l.failBefore, l.failAfter = nil, nil
	l.mu.Unlock()
	if before != nil {
		return before
	}
	if l.most > 0 && len(r.Deltas) > l.most {
		return fmt.Errorf("record %d: %w", r.Sequence, psg.ErrInvalid)
	}
	if err := l.Log.Append(ctx, r); err != nil {
		return err
	}
	return after
}

// openLog starts a bus of its own in dir and returns its log, and what stops it.
func openLog(t testing.TB, dir string) (log Log, stop func()) {
	t.Helper()
	transport, stop := openBus(t, dir)
	return transport.Ledger(), stop
}

func openBus(t testing.TB, dir string) (transport *bus.Bus, stop func()) {
	t.Helper()
	embedded, err := server.Start(server.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	transport, err = bus.Connect(bus.Config{Server: embedded, Name: "test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := transport.CreateStreams(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() { transport.Close(); embedded.Close() })
	t.Cleanup(stop)
	return transport, stop
}

func tempLog(t testing.TB) Log {
	log, _ := openLog(t, t.TempDir())
	return log
}

func newWorld(t *testing.T, log Log, known jobs) *world {
	t.Helper()
	rules, err := policies.Load("../policies/library/gpu_colocation")
	if err != nil {
		t.Fatal(err)
	}
	flaky := &flakyLog{Log: log}
	c, err := New(flaky, always(rules), known, Config{Name: "test", Period: time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, c, flaky, start}
	if err := c.Lead(t.Context(), w.now); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) cycle() {
	w.Helper()
	w.now = w.now.Add(time.Millisecond)
	if err := w.Cycle(w.Context(), w.now); err != nil {
		w.Fatal(err)
	}
}

func (w *world) report(deltas ...psg.Delta) {
	w.Helper()
	if err := w.Report(w.Context(), deltas); err != nil {
		w.Fatal(err)
	}
}

// place asks and cycles until there is an answer newer than after.
func (w *world) place(after uint64, asks ...psg.Ask) []psg.Order {
	w.Helper()
	type answer struct {
		orders []psg.Order
		err    error
	}
	ctx, cancel := context.WithTimeout(w.Context(), 20*time.Second)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		orders, _, err := w.Place(ctx, asks, after)
		answered <- answer{orders, err}
	}()
	for {
		select {
		case got := <-answered:
			if got.err != nil {
				w.Fatal(got.err)
			}
			return got.orders
		default:
			w.cycle()
		}
	}
}

func (w *world) state(id psg.RequestID) psg.State {
	status, _ := w.Ask(id)
	return status.State
}

func testNode(id psg.NodeID) psg.Node {
	return psg.Node{
		ID: id, Name: string(id), Datacenter: "dc1", Ready: true,
		Capacity: psg.Resources{psg.CPU: 4000, psg.Memory: 4096, psg.MemoryMax: 4096, psg.Disk: 10_000},
		Devices: []psg.Device{
			{ID: cardOf(id, 0), Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 40_960, NUMA: -1, Healthy: true},
			{ID: cardOf(id, 1), Vendor: "nvidia", Type: "gpu", Model: "A100", MemoryMB: 40_960, NUMA: -1, Healthy: true},
		},
	}
}

func cardOf(id psg.NodeID, i int) psg.DeviceID { return psg.DeviceID(fmt.Sprintf("%s-card-%d", id, i)) }

func workload(job, kind string, memory int64) psg.Workload {
	return psg.Workload{
		ID: psg.WorkloadID{Namespace: "default", Job: job, Group: "main"}, Version: 1,
		Type: psg.Service, Count: 1, Priority: 50, Tenant: "default", Kind: kind,
		Request: psg.Resources{psg.CPU: 100, psg.Memory: memory, psg.MemoryMax: memory},
	}
}

func gate(w psg.Workload, alloc string, node psg.NodeID) psg.Ask {
	return psg.Ask{ID: psg.RequestID(alloc), Alloc: psg.AllocID(alloc), Workload: w.ID, Node: node, At: start}
}

func TestCycle_GrantsWhatFitsAndQueuesTheRest(t *testing.T) {
	web, huge := workload("web", "service", 1024), workload("huge", "service", 1<<20)
	w := newWorld(t, tempLog(t), jobs{web.ID: web, huge.ID: huge})
	w.report(psg.NodeChanged{Node: testNode("n1")})

	granted := w.place(0, gate(web, "a1", "n1"))[0]
	if granted.Kind != psg.Grant || granted.Node != "n1" || granted.Epoch != 1 || granted.Sequence == 0 {
		t.Errorf("order = %+v, want a grant on n1", granted)
	}
	queued := w.place(0, gate(huge, "a2", "n1"))[0]
	if queued.Kind != psg.Wait || queued.Refusal == nil || queued.Refusal.State != psg.Queued {
		t.Fatalf("order = %+v, want it queued", queued)
	}
	if !strings.Contains(queued.Refusal.Summary, "memory_mb") {
		t.Errorf("summary %q does not say what is missing", queued.Refusal.Summary)
	}
}

func TestCycle_DeniesWithThePolicysReasonAndGrantsOnceItNoLongerHolds(t *testing.T) {
	inference, training := workload("chat", "inference", 64), workload("finetune", "training", 64)
	training.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 1000}}
	w := newWorld(t, tempLog(t), jobs{inference.ID: inference, training.ID: training})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(inference, "i1", "n1"), gate(inference, "i2", "n1"), gate(inference, "i3", "n1"))

	denied := w.place(0, gate(training, "t1", "n1"))[0]
	if denied.Kind != psg.Wait || denied.Refusal.State != psg.Denied || !strings.Contains(denied.Refusal.Summary, "gpu_colocation") {
		t.Fatalf("order = %+v %+v, want denied by gpu_colocation", denied, denied.Refusal)
	}

	w.report(psg.Freed{Ask: "i2", State: psg.Released, Reason: "complete", At: w.now})
	granted := w.place(denied.Sequence, gate(training, "t1", "n1"))[0]
	if granted.Kind != psg.Grant || len(granted.Devices) != 1 {
		t.Errorf("order = %+v, want a grant with one card", granted)
	}
}

func TestCycle_KeepsPolicysLimitsWithinOneCycle(t *testing.T) {
	gold, training := workload("chat", "inference", 64), workload("finetune", "training", 64)
	gold.Tier = "gold"
	training.Devices = []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: 1000}}
	w := newWorld(t, tempLog(t), jobs{gold.ID: gold, training.ID: training})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(gold, "g1", "n1"))

	// Gold inference on n1: at most one of these may run there.
	orders := w.place(0, gate(training, "t1", "n1"), gate(training, "t2", "n1"))
	kinds := map[psg.OrderKind]int{}
	for _, order := range orders {
		kinds[order.Kind]++
	}
	if kinds[psg.Grant] != 1 || kinds[psg.Steer] != 1 {
		t.Errorf("orders = %v, want one grant on n1 and one steered to n2", kinds)
	}
}

func TestCycle_AnswersElsewhereWithThePlannedNode(t *testing.T) {
	web := workload("web", "service", 3000)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.NodeChanged{Node: testNode("n2")})
	w.place(0, gate(web, "a1", "n1"))
	order := w.place(0, gate(web, "a2", "n1"))[0]
	if order.Kind != psg.Steer || order.Node != "n2" || order.Refusal == nil {
		t.Errorf("order = %+v, want a steer to n2", order)
	}
}

func TestController_KnowsEverythingAfterARestart(t *testing.T) {
	dir := t.TempDir()
	web, huge := workload("web", "service", 1024), workload("huge", "service", 1<<20)
	log, stop := openLog(t, dir)
	w := newWorld(t, log, jobs{web.ID: web, huge.ID: huge})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "a1", "n1"))
	w.place(0, gate(huge, "a2", "n1"))
	before, beforeAsks := w.Snapshot(), w.Asks()
	stop()

	log, _ = openLog(t, dir)
	again := newWorld(t, log, nil)
	after, afterAsks := again.Snapshot(), again.Asks()
	before.At = after.At
	if diff := diffJSON(t, before, after); diff != "" {
		t.Errorf("snapshot differs after the restart:\n%s", diff)
	}
	if diff := diffJSON(t, beforeAsks, afterAsks); diff != "" {
		t.Errorf("asks differ after the restart:\n%s", diff)
	}
	if _, epoch, leading := again.Position(); epoch != 2 || !leading {
		t.Errorf("epoch %d leading %t, want 2 and true", epoch, leading)
	}
	order := again.place(0, gate(web, "a1", "n1"))[0] // a retry gets the same grant
	if order.Kind != psg.Grant || order.Node != "n1" {
		t.Errorf("retried ask got %+v", order)
	}
}

func TestCycle_LosesNothingWhenTheAppendFails(t *testing.T) {
	for name, fail := range map[string]func(*flakyLog){
		"before the log":         func(l *flakyLog) { l.fail(psg.ErrUnavailable, nil) },
		"acknowledgement lost":   func(l *flakyLog) { l.fail(nil, psg.ErrUnavailable) },
		"unexpected, in the log": func(l *flakyLog) { l.fail(nil, errors.New("i/o timeout")) },
	} {
		t.Run(name, func(t *testing.T) {
			web := workload("web", "service", 1024)
			w := newWorld(t, tempLog(t), jobs{web.ID: web})
			w.report(psg.NodeChanged{Node: testNode("n1")})
			w.cycle()
			fail(w.log)
			order := w.place(0, gate(web, "a1", "n1"))[0]
			// What is read back may be told before the next epoch is open.
			if _, epoch, _ := w.Position(); order.Kind != psg.Grant || epoch != 2 {
				t.Errorf("order = %+v in epoch %d, want a grant in epoch 2", order, epoch)
			}
			w.checkLog()
		})
	}
}

func TestCycle_TellsNothingThatIsNotCommitted(t *testing.T) {
	web := workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.cycle()
	w.log.fail(psg.ErrNotLeader, nil)
	if err := w.submit(t.Context(), []psg.Ask{gate(web, "a1", "n1")}); err != nil {
		t.Fatal(err)
	}
	if err := w.Cycle(t.Context(), w.now); !errors.Is(err, psg.ErrNotLeader) {
		t.Fatalf("Cycle = %v, want ErrNotLeader", err)
	}
	if orders, _, fresh := w.answers([]psg.RequestID{"a1"}, 0); fresh {
		t.Errorf("told %+v although another leads", orders)
	}
}

func TestController_AStaleLeaderCommitsNothing(t *testing.T) {
	web := workload("web", "service", 1024)
	log := tempLog(t)
	stale := newWorld(t, log, jobs{web.ID: web})
	stale.report(psg.NodeChanged{Node: testNode("n1")})
	stale.cycle()
	fresh := newWorld(t, log, jobs{web.ID: web})

	if err := stale.submit(t.Context(), []psg.Ask{gate(web, "a1", "n1")}); err != nil {
		t.Fatal(err)
	}
	if err := stale.Cycle(t.Context(), stale.now); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("stale leader's cycle = %v, want ErrNotLeader", err)
	}
	if order := fresh.place(0, gate(web, "a1", "n1"))[0]; order.Epoch != 2 || order.Kind != psg.Grant {
		t.Errorf("fresh leader answered %+v", order)
	}
	fresh.checkLog()
}

func TestReserve_HoldsAllOrNoneAndIsUsedByTheGate(t *testing.T) {
	web := workload("web", "service", 2048)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")}, psg.WorkloadChanged{Workload: web})

	held, refusals := w.reserve(psg.Reservation{ID: "r1", Workload: web.ID, Count: 2, Hold: time.Minute})
	if len(held) != 2 || len(refusals) != 0 {
		t.Fatalf("held %d, refused %v, want 2 held", len(held), refusals)
	}
	if held, refusals = w.reserve(psg.Reservation{ID: "r2", Workload: web.ID, Count: 1, Hold: time.Minute}); len(held) != 0 || len(refusals) != 1 {
		t.Fatalf("a third instance: held %v, refused %v, want refused", held, refusals)
	}
	order := w.place(0, gate(web, "a1", "n1"))[0]
	if order.Kind != psg.Grant {
		t.Errorf("gate got %+v, want the reserved room", order)
	}
	if w.state("r1/0") != psg.Released && w.state("r1/1") != psg.Released {
		t.Error("the grant used no reservation")
	}
	w.now = w.now.Add(2 * time.Minute)
	w.cycle()
	if w.state("r1/0") != psg.Released || w.state("r1/1") != psg.Released {
		t.Error("the unused reservation did not expire")
	}
}

func TestReserve_ResizesWhatRuns(t *testing.T) {
	web := workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "a1", "n1"))

	held, _ := w.reserve(psg.Reservation{ID: "s1", Alloc: "a1", Request: psg.Resources{psg.CPU: 200, psg.Memory: 4000}})
	if len(held) != 1 || held[0].Request[psg.Memory] != 4000 {
		t.Errorf("held %+v, want 4000 MiB", held)
	}
	_, refusals := w.reserve(psg.Reservation{ID: "s2", Alloc: "a1", Request: psg.Resources{psg.Memory: 5000}})
	if len(refusals) != 1 || !strings.Contains(refusals[0].Summary, "memory_mb") {
		t.Errorf("refusals = %+v, want memory_mb", refusals)
	}
	_, refusals = w.reserve(psg.Reservation{ID: "s3", Alloc: "nobody", Request: psg.Resources{psg.Memory: 1}})
	if len(refusals) != 1 || !strings.Contains(refusals[0].Summary, "holds nothing") {
		t.Errorf("refusals = %+v, want holds nothing", refusals)
	}
	w.checkLog()
}

// reserve reserves and cycles until there is an answer.
func (w *world) reserve(r psg.Reservation) (held []psg.Placement, refusals []psg.Refusal) {
	w.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		held, refusals, err = w.Reserve(w.Context(), r)
		done <- err
	}()
	for {
		select {
		case err := <-done:
			if err != nil {
				w.Fatal(err)
			}
			w.cycle()
			return held, refusals
		default:
			w.cycle()
		}
	}
}

func TestPlace_AcceptsAnAllocationThatStartedByItself(t *testing.T) {
	web := workload("web", "service", 4000)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.report(psg.NodeChanged{Node: testNode("n1")})
	w.place(0, gate(web, "a1", "n1"))
	started := gate(web, "a2", "n1")
	started.Started = true
	if order := w.place(0, started)[0]; order.Kind != psg.Grant {
		t.Errorf("order = %+v, want it accounted", order)
	}
	if w.state("a2") != psg.Running {
		t.Errorf("a2 is %s, want running", w.state("a2"))
	}
	w.checkLog()
}

func TestCycle_IgnoresAFactThatCannotBeRecorded(t *testing.T) {
	web := workload("web", "service", 1024)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	broken := testNode("n0")
	broken.Capacity[psg.Memory] = -1
	w.report(psg.NodeChanged{Node: broken}, psg.NodeChanged{Node: testNode("n1")})
	if order := w.place(0, gate(web, "a1", "n1"))[0]; order.Kind != psg.Grant {
		t.Errorf("order = %+v, want a grant in spite of the broken node", order)
	}
	if nodes := w.Snapshot().Nodes; len(nodes) != 1 {
		t.Errorf("nodes = %+v, want n1 alone", nodes)
	}
	w.checkLog()
}

func TestChunks_KeepAGangTogether(t *testing.T) {
	var facts, decisions []psg.Delta
	for range maxDeltas - 1 {
		facts = append(facts, psg.NodeGone{Node: "n"})
	}
	for range 3 {
		decisions = append(decisions, psg.Placed{Placement: psg.Placement{Ask: psg.Ask{Workload: psg.WorkloadID{Job: "gang"}}}})
	}
	decisions = append(decisions, psg.Placed{Placement: psg.Placement{Ask: psg.Ask{Workload: psg.WorkloadID{Job: "next"}}}})
	w := newWorld(t, tempLog(t), nil)
	cut := w.chunks(facts, decisions)
	if len(cut) != 2 || len(cut[0]) != maxDeltas+2 || len(cut[1]) != 1 {
		t.Errorf("cut into %d records", len(cut))
	}
}

func TestPlace_RefusesWhatItCannotAccept(t *testing.T) {
	web := workload("web", "service", 1)
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	w.inbox.limit = 1
	for name, wrong := range map[string]struct {
		ask  psg.Ask
		want error
	}{
		"no ID":            {psg.Ask{Workload: web.ID}, psg.ErrInvalid},
		"unknown workload": {psg.Ask{ID: "a", Alloc: "a", Workload: psg.WorkloadID{Job: "nothing", Group: "g"}}, psg.ErrUnknown},
		"inbox full":       {gate(web, "a", "n1"), psg.ErrBusy}, // an ask and its workload
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := w.Place(t.Context(), []psg.Ask{wrong.ask}, 0); !errors.Is(err, wrong.want) {
				t.Errorf("Place = %v, want %v", err, wrong.want)
			}
		})
	}
	w.resign()
	if _, _, err := w.Place(t.Context(), []psg.Ask{gate(web, "a", "n1")}, 0); !errors.Is(err, psg.ErrNotLeader) {
		t.Errorf("Place after resigning = %v, want ErrNotLeader", err)
	}
}

func TestRun_GrantsExactlyWhatFitsUnderParallelLoad(t *testing.T) { // case P11
	web := workload("web", "service", 1)
	web.Request = psg.Resources{psg.CPU: 500}
	w := newWorld(t, tempLog(t), jobs{web.ID: web})
	big := testNode("n1")
	big.Capacity[psg.CPU] = 100_000
	w.report(psg.NodeChanged{Node: big})

	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Controller.Run(ctx) }()
	for retry := time.NewTicker(time.Millisecond); ; <-retry.C { // until Run leads
		if _, epoch, _ := w.Position(); epoch == 2 {
			break
		}
	}
	var group sync.WaitGroup
	var mu sync.Mutex
	kinds := map[psg.OrderKind]int{}
	for i := range 1000 {
		group.Go(func() {
			orders, _, err := w.Place(ctx, []psg.Ask{gate(web, fmt.Sprintf("alloc-%d", i), "n1")}, 0)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			kinds[orders[0].Kind]++
			mu.Unlock()
		})
	}
	group.Wait()
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if kinds[psg.Grant] != 200 || kinds[psg.Wait] != 800 {
		t.Errorf("orders = %v, want 200 grants and 800 waits", kinds)
	}
	w.checkLog()
}

// checkLog replays the log with a fresh state, which refuses whatever breaks
// an invariant.
func (w *world) checkLog() {
	w.Helper()
	if err := w.log.Replay(w.Context(), 0, ledger.New().Apply); err != nil {
		w.Error(err)
	}
}
