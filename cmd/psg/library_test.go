package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies"
	"github.com/psgrid/psg/shim"
)

// libraryCases say, for the example job of each library bundle, what makes of a
// node one that it should not be on, and why not, or that it should rather not.
var libraryCases = map[string]struct {
	spoil func(n *psg.Node, s *psg.Snapshot)
	why   string // empty for one that only scores less
}{
	"anti_colocation": {func(n *psg.Node, s *psg.Snapshot) {
		resides(n, s, psg.Workload{ID: psg.WorkloadID{Namespace: "default", Job: "other"}, Labels: map[string]string{"group": "ledger"}})
	}, "of group ledger"},
	"compliance":      {func(n *psg.Node, _ *psg.Snapshot) { n.Meta["compliance"] = "sox" }, "not certified for pci"},
	"expensive_nodes": {func(n *psg.Node, _ *psg.Snapshot) { n.Class = "gpu-large" }, ""},
	"failure_domains": {func(n *psg.Node, s *psg.Snapshot) {
		resides(n, s, psg.Workload{ID: psg.WorkloadID{Namespace: "default", Job: "etl"}, Tenant: "batch"})
	}, "of tenant batch"},
	"gpu_colocation": {func(n *psg.Node, s *psg.Snapshot) {
		for _, job := range []string{"a", "b", "c"} {
			resides(n, s, psg.Workload{ID: psg.WorkloadID{Namespace: "default", Job: job}, Kind: "inference"})
		}
	}, "runs 3 inference workloads"},
	"memory_overcommit": {func(n *psg.Node, _ *psg.Snapshot) {
		n.Capacity[psg.Memory] = 2048
		n.Projection = &psg.Projection{}
		n.Projection.Upper[psg.Memory] = 2000
	}, "too much to overcommit"},
	"noisy_nodes": {func(n *psg.Node, _ *psg.Snapshot) {
		n.Telemetry = &psg.Telemetry{At: time.Unix(1000, 0), Metrics: map[string]psg.Stats{"nvme_slowdown": {Mean: 2}}}
	}, ""},
	"spot_nodes": {func(n *psg.Node, _ *psg.Snapshot) { n.Meta["lifecycle"] = "on-demand" }, ""},
}

// resides has a node hold an instance of a workload.
func resides(n *psg.Node, s *psg.Snapshot, w psg.Workload) {
	s.Workloads = append(s.Workloads, w)
	p := psg.Placement{Ask: psg.Ask{ID: psg.RequestID(w.ID.Job), Workload: w.ID}, Node: n.ID, State: psg.Running}
	s.Placements = s.Placements.Renew([]psg.RequestID{p.Ask.ID}, func(psg.RequestID) *psg.Placement { return &p })
}

func TestLibrary_ExamplesAreDecidedAsTheySay(t *testing.T) {
	dirs, err := filepath.Glob("../../policies/library/*/bundle.hcl")
	if err != nil || len(dirs) != len(libraryCases) {
		t.Fatalf("%d bundles and %d cases, %v", len(dirs), len(libraryCases), err)
	}
	for _, dir := range dirs {
		dir = filepath.Dir(dir)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			job, err := os.ReadFile(filepath.Join(dir, "example.nomad.json"))
			if err != nil {
				t.Fatal(err)
			}
			translation, err := shim.Translate(job)
			if err != nil {
				t.Fatal(err)
			}
			set, err := policies.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			c, s := libraryCases[filepath.Base(dir)], twoNodes()
			for _, source := range set.Bundle().Sources {
				if err := set.Feed(source.Name, map[string]any{}, s.At); err != nil {
					t.Fatal(err)
				}
			}
			c.spoil(&s.Nodes[1], s)
			s.Workloads = append(s.Workloads, translation.Workloads...)
			s.Sort()
			ruling, err := set.Rule(t.Context(), &translation.Workloads[0], s)
			if err != nil {
				t.Fatal(err)
			}
			points := ruling.Points(2)
			switch why := ruling.Why(1); {
			case len(ruling.Why(0)) > 0 || len(ruling.Rejected) > 0:
				t.Errorf("the good node is denied: %v, %v", ruling.Why(0), ruling.Rejected)
			case c.why == "" && (len(why) > 0 || points[1] >= points[0]):
				t.Errorf("the other is denied for %v, and has %d of %d points", why, points[1], points[0])
			case c.why != "" && (len(why) != 1 || !strings.Contains(why[0].Text, c.why)):
				t.Errorf("the other is denied for %v, want %q", why, c.why)
			}
		})
	}
}

// The JSON of an example is what nomad makes of the HCL beside it.
func TestLibrary_ExamplesAreOfTheirHCL(t *testing.T) {
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("SKIPPED: no nomad on PATH to read HCL with")
	}
	for name := range libraryCases {
		file := filepath.Join("../../policies/library", name, "example.nomad")
		made, err := exec.Command(nomad, "job", "run", "-output", file+".hcl").Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		kept, err := os.ReadFile(file + ".json")
		if err != nil {
			t.Fatal(err)
		}
		got, err := shim.Translate(kept)
		want, wrong := shim.Translate(made)
		if err != nil || wrong != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: run nomad job run -output and keep the result (%v, %v)", name, err, wrong)
		}
	}
}

// twoNodes are alike, and good for every example.
func twoNodes() *psg.Snapshot {
	s := &psg.Snapshot{At: time.Unix(1000, 0)}
	for _, id := range []psg.NodeID{"good", "other"} {
		s.Nodes = append(s.Nodes, psg.Node{
			ID: id, Name: string(id), Ready: true, Region: "eu-west", Datacenter: "dc1", Domain: "rack-" + string(id),
			Meta:     map[string]string{"compliance": "pci", "lifecycle": "spot"},
			Capacity: psg.Resources{psg.CPU: 8000, psg.Memory: 65536, psg.Disk: 100_000},
		})
	}
	return s
}
