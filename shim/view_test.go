package shim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// delta writes what matters of a delta on one line.
func delta(d psg.Delta) string {
	switch d := d.(type) {
	case psg.NodeChanged:
		return fmt.Sprintf("node %.8s version %d ready %v", d.Node.ID, d.Node.Version, d.Node.Ready)
	case psg.NodeGone:
		return fmt.Sprintf("node %.8s gone", d.Node)
	case psg.WorkloadChanged:
		w := d.Workload
		return fmt.Sprintf("workload %s version %d type %s count %d held %v labels %v: %v", w.ID, w.Version, w.Type, w.Count, w.Held, w.Labels, w.Request)
	case psg.WorkloadGone:
		return fmt.Sprintf("workload %s gone", d.Workload)
	case psg.Placed:
		p := d.Placement
		text := fmt.Sprintf("%.8s placed on %.8s %s: %v", p.Ask.ID, p.Node, p.State, p.Request)
		for _, port := range p.Ports {
			text += fmt.Sprintf(" port %s/%d", port.Host, port.Port)
		}
		for _, d := range p.Devices {
			text += fmt.Sprintf(" device %s for ask %d: %d", d.Device, d.Ask, d.MilliGPU)
		}
		return text
	case psg.Moved:
		return fmt.Sprintf("%.8s %s", d.Ask, d.State)
	case psg.Freed:
		return fmt.Sprintf("%.8s %s: %s", d.Ask, d.State, d.Reason)
	}
	return fmt.Sprintf("%T", d)
}

func lines(deltas []psg.Delta) []string {
	var out []string
	for _, d := range deltas {
		out = append(out, delta(d))
	}
	return out
}

// feed gives a view one event, as a Watcher does with no Nomad to ask.
func feed(t *testing.T, client *api.Client, v *view, e event) []psg.Delta {
	t.Helper()
	deltas, err := (&Watcher{client: client, view: v}).event(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return deltas
}

func TestView_RecordedStream(t *testing.T) {
	data, err := os.ReadFile("testdata/nomad/stream.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	_, client := newNomad(t)
	v := newView("global", slog.New(slog.DiscardHandler))
	var got bytes.Buffer
	scanner := bufio.NewScanner(bytes.NewReader(data))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var batch eventBatch
		if err := json.Unmarshal(scanner.Bytes(), &batch); err != nil {
			t.Fatal(err)
		}
		for _, e := range batch.Events {
			fmt.Fprintf(&got, "%d %s %s\n", e.Index, e.Topic, e.Type)
			for _, line := range lines(feed(t, client, v, e)) {
				fmt.Fprintf(&got, "\t%s\n", line)
			}
			if again := feed(t, client, v, e); len(again) > 0 {
				fmt.Fprintf(&got, "\ttold again: %q\n", lines(again))
			}
		}
	}
	golden(t, "testdata/nomad/stream.golden", got.Bytes())
}

// gatedJob is a job with a group of one gate and one main task.
func gatedJob(index uint64) *api.Job {
	return &api.Job{
		ID: new("train"), Namespace: new("ml"), Type: new("batch"), JobModifyIndex: &index,
		TaskGroups: []*api.TaskGroup{{Name: new("g"), Tasks: []*api.Task{
			{Name: "gate", Driver: "psg", Lifecycle: &api.TaskLifecycle{Hook: "prestart"}},
			{Name: "main", Driver: "raw_exec"},
		}}},
	}
}

func gatedAlloc(index uint64, status string, states ...string) *allocation {
	a := &allocation{
		ID: "a1", Namespace: "ml", JobID: "train", TaskGroup: "g", NodeID: "n1", ClientStatus: status, ModifyIndex: index,
		AllocatedResources: &allocatedResources{Tasks: map[string]*api.AllocatedTaskResources{"gate": {}, "main": {}}},
		TaskStates:         map[string]*api.TaskState{},
	}
	for i, name := range []string{"gate", "main"}[:len(states)] {
		a.TaskStates[name] = &api.TaskState{State: states[i]}
	}
	return a
}

func check(t *testing.T, what string, deltas []psg.Delta, want ...string) {
	t.Helper()
	if got := lines(deltas); !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

func TestView_ManagedAllocationMovesAndEnds(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	check(t, "registered", v.job(gatedJob(5)), "workload ml/train/g version 5 type batch count 1 held false labels map[]: cpu_mhz=100 memory_mb=300 memory_max_mb=300 disk_mb=300")
	check(t, "registered again", v.job(gatedJob(5)))
	check(t, "pending", v.alloc(gatedAlloc(6, "pending")))
	check(t, "gate runs", v.alloc(gatedAlloc(7, "running", "running", "pending")))
	check(t, "main runs", v.alloc(gatedAlloc(8, "running", "dead", "running")), "a1 running")
	check(t, "an older event", v.alloc(gatedAlloc(7, "running", "dead", "running")))
	check(t, "main still runs", v.alloc(gatedAlloc(9, "running", "dead", "running")), "a1 running")
	check(t, "cut off", v.alloc(gatedAlloc(10, "unknown", "dead", "running")))
	check(t, "lost", v.alloc(gatedAlloc(11, "lost", "dead", "running")), "a1 lost: lost")
	check(t, "lost again", v.alloc(gatedAlloc(12, "lost", "dead", "dead")))
	check(t, "purged", v.jobGone(jobKey{"ml", "train"}), "workload ml/train/g gone")
	check(t, "purged again", v.jobGone(jobKey{"ml", "train"}))
	check(t, "forgotten", v.onlyAllocs(nil, time.Time{}))
	if len(v.allocs)+len(v.jobs)+len(v.foreign) != 0 {
		t.Errorf("still known: %v %v %v", v.allocs, v.jobs, v.foreign)
	}
}

func TestView_TellsThatNomadStopsAnAllocation(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	v.job(gatedJob(5))
	check(t, "main runs", v.alloc(gatedAlloc(6, "running", "dead", "running")), "a1 running")
	stopped := gatedAlloc(7, "running", "dead", "running")
	stopped.DesiredStatus, stopped.DesiredDescription = api.AllocDesiredStatusStop, "alloc is being migrated"
	told := v.alloc(stopped)
	check(t, "stopped", told, "a1 ending")
	if why := told[0].(psg.Moved).Reason; why != "Nomad stops it: alloc is being migrated" {
		t.Errorf("the reason is %q", why)
	}
	ended := gatedAlloc(8, "complete", "dead", "dead")
	ended.DesiredStatus = api.AllocDesiredStatusStop
	check(t, "ended", v.alloc(ended), "a1 released: complete")
}

func TestView_EndedAllocationIsToldOnceAfterAList(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	v.job(gatedJob(5))
	check(t, "listed", v.alloc(gatedAlloc(6, "complete")), "a1 released: complete")
	check(t, "listed again", v.alloc(gatedAlloc(6, "complete")))
	running := gatedAlloc(7, "running")
	running.ID = "a2"
	v.alloc(running)
	check(t, "gone from the list", v.onlyAllocs(map[string]bool{"a1": true}, time.Time{}), "a2 released: Nomad no longer knows the allocation")
}

func TestView_StoppedJobAndDroppedGroupAreNoLongerWanted(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	v.job(gatedJob(5))
	renamed := gatedJob(6)
	renamed.TaskGroups[0].Name = new("h")
	if got := lines(v.job(renamed)); len(got) != 2 || got[0] != "workload ml/train/g gone" || !strings.HasPrefix(got[1], "workload ml/train/h version 6") {
		t.Errorf("renamed group: %q", got)
	}
	stopped := gatedJob(7)
	stopped.TaskGroups[0].Name = new("h")
	stopped.Stop = new(true)
	check(t, "stopped", v.job(stopped), "workload ml/train/h gone")
	check(t, "purged", v.jobGone(jobKey{"ml", "train"}))
}

func TestView_ForeignAllocationHoldsWhatNomadGaveIt(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	job := gatedJob(5)
	job.TaskGroups[0].Tasks[0].Driver = "exec"
	job.TaskGroups[0].Tasks[1].Resources = &api.Resources{Devices: []*api.RequestedDevice{{Name: "fpga"}, {Name: "nvidia/gpu"}}}
	check(t, "a job PSG does not manage", v.job(job))
	a := gatedAlloc(6, "running")
	a.AllocatedResources.TaskLifecycles = map[string]*api.TaskLifecycle{"gate": {Hook: "prestart"}}
	a.AllocatedResources.Tasks["gate"] = &api.AllocatedTaskResources{Memory: api.AllocatedMemoryResources{MemoryMB: 900}}
	a.AllocatedResources.Tasks["main"] = &api.AllocatedTaskResources{
		Cpu:     api.AllocatedCpuResources{CpuShares: 4000, ReservedCores: []uint16{1, 2}},
		Memory:  api.AllocatedMemoryResources{MemoryMB: 100, MemoryMaxMB: 1000},
		Devices: []*api.AllocatedDeviceResource{{Vendor: "nvidia", Type: "gpu", Name: "A100", DeviceIDs: []string{"GPU-a", "GPU-b"}}},
	}
	second := *a
	second.ID = "a2"
	label := "workload ml/train/g version 5 type batch count 1 held false labels map[psg.managed:false]: cpu_mhz=100 memory_mb=300 memory_max_mb=300 disk_mb=300"
	holds := " placed on n1 running: cores=2 memory_mb=900 memory_max_mb=1000 device GPU-a for ask 1: 1000 device GPU-b for ask 1: 1000"
	check(t, "first", v.alloc(a), label, "a1"+holds)
	check(t, "second", v.alloc(&second), "a2"+holds)
	check(t, "first ends", v.alloc(gatedAlloc(7, "failed")), "a1 released: failed")
	second.ModifyIndex, second.ClientStatus, second.DesiredDescription = 8, "complete", "alloc not needed"
	check(t, "second ends", v.alloc(&second), "a2 released: complete: alloc not needed", "workload ml/train/g gone")
	check(t, "an end seen first", v.alloc(gatedAlloc(9, "complete")))
}

func TestView_AllocationFromBeforeTheGateIsForeign(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	v.job(gatedJob(5))
	old := gatedAlloc(4, "running")
	delete(old.AllocatedResources.Tasks, "gate")
	check(t, "runs", v.alloc(old), "a1 placed on n1 running: nothing")
	check(t, "ends", v.alloc(gatedAlloc(6, "complete")), "a1 released: complete")
}

func TestView_HeldJobIsManagedEvenWithoutAGate(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	job := gatedJob(5)
	job.TaskGroups[0].Tasks = job.TaskGroups[0].Tasks[1:]
	job.Constraints = []*api.Constraint{{LTarget: holdAttribute, RTarget: holdValue, Operand: "="}}
	if got := lines(v.job(job)); len(got) != 1 || !strings.Contains(got[0], "held true") {
		t.Errorf("%q", got)
	}
}

func TestView_UntranslatableJobIsNotPlacedButCounted(t *testing.T) {
	var log bytes.Buffer
	v := newView("", slog.New(slog.NewTextHandler(&log, nil)))
	job := gatedJob(5)
	job.TaskGroups[0].Tasks[0].Config = map[string]any{"colour": "red"}
	check(t, "registered", v.job(job))
	if !strings.Contains(log.String(), "colour") {
		t.Errorf("the log does not say why: %s", &log)
	}
}

func TestView_CountsWhatRunsInOtherNamespacesAsNomadsOwn(t *testing.T) {
	v := newView("", slog.New(slog.DiscardHandler))
	v.only = map[string]bool{"default": true}
	if got := v.job(gatedJob(5)); len(got) > 0 {
		t.Errorf("a job of another namespace is told: %q", lines(got))
	}
	got := lines(v.alloc(gatedAlloc(6, "running", "dead", "running")))
	if len(got) != 2 || !strings.Contains(got[0], "labels map[psg.managed:false]") || !strings.HasPrefix(got[1], "a1 placed on n1 running") {
		t.Errorf("its allocation is told as %q", got)
	}
	v.only["ml"] = true
	if got := v.job(gatedJob(7)); len(got) != 1 {
		t.Errorf("in a namespace of PSG's: %q", lines(got))
	}
}
