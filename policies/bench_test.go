package policies

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/psgrid/psg"
)

// fourPolicies is a bundle of the library's colocation, failure domains,
// compliance and noisy nodes, each as it comes.
func fourPolicies(b testing.TB, config Config) *Set {
	b.Helper()
	set, err := config.Load(fourPoliciesDir(b))
	if err != nil {
		b.Fatal(err)
	}
	return set
}

func fourPoliciesDir(b testing.TB) string {
	b.Helper()
	dir := b.TempDir()
	bundle := "bundle \"four\" {}\n"
	for _, name := range []string{"gpu_colocation", "failure_domains", "compliance", "noisy_nodes"} {
		src := readFile(b, filepath.Join("library", name, "bundle.hcl"))
		src = src[strings.Index(src, "}\n")+2:] // less its bundle block
		bundle += strings.Replace(src, `"policy.rego"`, fmt.Sprintf("%q", name+".rego"), 1)
		policy := readFile(b, filepath.Join("library", name, "policy.rego"))
		if err := os.WriteFile(filepath.Join(dir, name+".rego"), []byte(policy), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bundle.hcl"), []byte(bundle), 0o600); err != nil {
		b.Fatal(err)
	}
	return dir
}

// fleet is a cluster that all four policies have something to say of: 1 to 8
// workloads a node, telemetry, certificates, regions; one node in fifty in a
// maintenance window.
func fleet(r *rand.Rand, nodes int) (*psg.Snapshot, map[string]any) {
	kinds := []*psg.Workload{gpuJob("inference", 1), gpuJob("training", 1), gpuJob("batch", 0)}
	gold := gpuJob("inference", 1)
	gold.ID.Job, gold.Tier = "gold", "gold"
	batch := gpuJob("batch", 0)
	batch.ID.Job, batch.Tenant = "etl", "batch"
	kinds = append(kinds, gold, batch)
	running := make([][]*psg.Workload, nodes)
	for i := range running {
		for range 1 + r.IntN(8) {
			running[i] = append(running[i], kinds[r.IntN(len(kinds))])
		}
	}
	s := cluster(running...)
	s.At = time.Unix(1_800_000_000, 0)
	windows := map[string]any{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.ID = psg.NodeID(fmt.Sprintf("n%05d", i))
		n.Name, n.Domain = string(n.ID), fmt.Sprintf("rack-%02d", i%40)
		n.Region = []string{"eu-central", "eu-west", "us-east"}[r.IntN(3)]
		n.Attributes = map[string]string{"cpu.arch": "amd64", "kernel.name": "linux"}
		n.Meta = map[string]string{"compliance": []string{"pci, sox", "sox", ""}[r.IntN(3)]}
		n.Capacity = psg.Resources{64000, 32, 262144, 262144}
		n.Telemetry = measured(r)
		if i%50 == 0 {
			start := s.At.UnixNano()
			windows[n.Name] = []any{map[string]any{"start": start - 1, "end": start + int64(time.Hour)}}
		}
	}
	var moved []psg.Placement
	for p := range s.Placements.All() {
		index, there := 0, *p
		fmt.Sscanf(string(p.Node), "n%d", &index)
		there.Node = s.Nodes[index].ID
		moved = append(moved, there)
	}
	s.Placements = psg.PlacementsOf(moved...)
	return s, windows
}

func measured(r *rand.Rand) *psg.Telemetry {
	return &psg.Telemetry{At: time.Unix(1_800_000_000, 0), Metrics: map[string]psg.Stats{
		"cpu_percent":         {Last: r.Float64() * 100, Mean: r.Float64() * 100, P95: r.Float64() * 100},
		"cpu_steal_percent":   {P95: r.ExpFloat64() * 6, Mean: r.ExpFloat64() * 5},
		"packet_loss_percent": {Mean: r.ExpFloat64() / 4},
		"nvme_slowdown":       {Mean: 1 + r.ExpFloat64()/3},
	}}
}

// askers are workloads of so many classes, training among them, labelled in
// ways that the policies tell apart.
func askers(n int) []*psg.Workload {
	out := make([]*psg.Workload, n)
	for i := range out {
		w := gpuJob([]string{"training", "inference", "batch"}[i%3], 1-i%3/2)
		w.ID.Job, w.Labels = fmt.Sprintf("job-%d", i), map[string]string{}
		if i%2 == 0 {
			w.Labels["compliance"] = []string{"pci", "sox"}[i/2%2]
		}
		if i%4 < 2 {
			w.Labels["residency"] = "eu"
		}
		if i%5 == 0 {
			w.ID.Job = "checkout"
			w.ID.Group = fmt.Sprintf("g%d", i)
		}
		if i%6 == 0 {
			w.Labels["io"] = "high"
		}
		out[i] = w
	}
	return out
}

// BenchmarkClass rules on a class of workloads that was not seen before, all
// policies over 5,000 nodes.
func BenchmarkClass(b *testing.B) {
	s, windows := fleet(rand.New(rand.NewPCG(1, 1)), 5000)
	set := fed(b, Config{}, windows, s)
	for _, w := range askers(60) {
		rule(b, set, w, s)
	}
	for i := 0; b.Loop(); i++ {
		w := gpuJob("training", 1)
		w.ID.Job = fmt.Sprintf("new-%d", i)
		w.Labels = map[string]string{"compliance": fmt.Sprintf("c%d", i), "residency": "eu"}
		rule(b, set, w, s)
	}
}

// BenchmarkIngest takes in new telemetry of all 5,000 nodes, which 5 reports a
// second make 25,000 updates, and rules on 60 classes after every 500 ms of it.
// core-share is the part of one core that 25,000 updates a second take, by
// processor time; B/node what the set keeps in memory, its snapshot aside.
func BenchmarkIngest(b *testing.B) {
	const nodes, perSecond = 5000, 25_000
	r := rand.New(rand.NewPCG(1, 1))
	s, windows := fleet(r, nodes)
	before := heap()
	set := fed(b, Config{}, windows, s)
	workloads := askers(60)
	for _, w := range workloads {
		rule(b, set, w, s)
	}
	kept := float64(heap()-before) / nodes
	observed := make([]*psg.Telemetry, 3*nodes)
	for i := range observed {
		observed[i] = measured(r)
	}
	began := processorTime(b)
	for i := 0; b.Loop(); i++ {
		next := *s
		next.Nodes = slices.Clone(s.Nodes)
		next.At = s.At.Add(500 * time.Millisecond)
		for row := range next.Nodes {
			next.Nodes[row].Telemetry = observed[(i*nodes+row)%len(observed)]
		}
		s = &next
		for _, w := range workloads {
			rule(b, set, w, s)
		}
	}
	updates := float64(perSecond) / 2 // by the time of a cycle, of which the last one of a node counts
	perUpdate := float64((processorTime(b) - began).Nanoseconds()) / float64(b.N) / updates
	b.ReportMetric(perUpdate, "ns/update")
	b.ReportMetric(perUpdate*perSecond/1e9, "core-share")
	b.ReportMetric(kept, "B/node")
}

// BenchmarkReload decides in cycles, ten a second, as BenchmarkPolicy/psg does, all
// the while that the bundle is loaded anew and its CMDB answers with other 15 MB,
// and on through the first cycles after that; and compares the slowest hundredth
// of decisions with that of undisturbed ones: ratio by the clock, cpu-ratio by the
// processor time of the thread that decides, which other programs hardly touch.
func BenchmarkReload(b *testing.B) {
	s, windows := fleet(rand.New(rand.NewPCG(1, 1)), 5000)
	dir := fourPoliciesDir(b)
	store, err := NewStore(dir, Config{Timeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	documents := []json.RawMessage{largeCMDB(b, windows, "ordered"), largeCMDB(b, windows, "approved")}
	feed := func(i int) {
		if err := store.Feed(store.Sources()[0], documents[i%2], s.At); err != nil {
			b.Error(err)
		}
	}
	feed(0)
	d := &deciding{store: store, workloads: askers(60), cycles: measuredAnew(s, 4), every: 100 * time.Millisecond}
	d.until(b, d.cyclesMore(10))
	var idle, busy latency
	var took time.Duration
	for i := 1; b.Loop(); i++ {
		idle = d.until(b, d.cyclesMore(60))
		done := make(chan struct{})
		go func() {
			defer close(done)
			began := time.Now()
			if err := store.Reload(dir); err != nil {
				b.Error(err)
			}
			feed(i)
			took = time.Since(began)
		}()
		after := d.cyclesMore(3)
		busy = d.until(b, func() bool {
			select {
			case <-done:
				return after()
			default:
				return false
			}
		})
	}
	b.ReportMetric(float64(idle.clock.Nanoseconds()), "idle-p99-ns")
	b.ReportMetric(float64(busy.clock.Nanoseconds()), "reload-p99-ns")
	b.ReportMetric(float64(busy.clock)/float64(idle.clock), "ratio")
	b.ReportMetric(float64(busy.processor)/float64(idle.processor), "cpu-ratio")
	b.ReportMetric(took.Seconds(), "reload-s")
	b.ReportMetric(float64(len(documents[0]))/1e6, "MB")
	b.ReportMetric(0, "ns/op") // of the cycles before, too
}

// largeCMDB is 15 MB of JSON: maintenance windows of a cluster's machines, and of
// many that it does not have.
func largeCMDB(b *testing.B, windows map[string]any, what string) json.RawMessage {
	b.Helper()
	all := maps.Clone(windows)
	for i := range 150_000 {
		all[fmt.Sprintf("other-%06d", i)] = []any{map[string]any{"start": i, "end": i + 1, "ticket": "maintenance of the whole rack, " + what}}
	}
	text, err := json.Marshal(all)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

// deciding decides in cycles, in each of which the telemetry of all nodes is new.
type deciding struct {
	store     *Store
	workloads []*psg.Workload
	cycles    []*psg.Snapshot
	every     time.Duration // from one cycle's beginning to the next one's
	cycle     int
}

// latency is how long a decision takes, without taking in the telemetry.
type latency struct{ clock, processor time.Duration }

// cyclesMore reports true from its n-th call on.
func (d *deciding) cyclesMore(n int) func() bool {
	return func() bool { n--; return n < 0 }
}

// until is how long all but the slowest hundredth of decisions take.
func (d *deciding) until(b *testing.B, done func() bool) (p99 latency) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ticker := time.NewTicker(d.every)
	defer ticker.Stop()
	var clock, processor []time.Duration
	for !done() {
		<-ticker.C
		set, view := d.store.Current(), d.cycles[d.cycle%len(d.cycles)]
		d.cycle++
		set.table.mu.Lock()
		set.takeIn(b.Context(), set.viewer.of(view, set.fed.Load()))
		set.table.mu.Unlock()
		for _, w := range d.workloads {
			used, began := threadTime(b), time.Now()
			rule(b, set, w, view)
			clock = append(clock, time.Since(began))
			processor = append(processor, threadTime(b)-used)
		}
	}
	slices.Sort(clock)
	slices.Sort(processor)
	return latency{clock[len(clock)*99/100], processor[len(processor)*99/100]}
}

// heap is what is reachable.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// threadTime is what this thread has used of a processor.
func threadTime(b *testing.B) time.Duration {
	b.Helper()
	var used unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Nano())
}

// processorTime is what this process has used of all processors.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
