package shim

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg"
)

const examples = "../examples"

// TestExamples_Translate translates the JSON of each example: that is what the
// demo submits where there is no nomad to read the HCL.
func TestExamples_Translate(t *testing.T) {
	for job, want := range map[string]func(psg.Workload) bool{
		"gated-service": func(w psg.Workload) bool { return w.Type == psg.Service && w.Tier == "gold" && len(w.Devices) == 0 },
		"inference": func(w psg.Workload) bool {
			return w.Kind == "inference" && w.Count == 3 && w.Labels["model"] == "ranker"
		},
		"training": func(w psg.Workload) bool {
			return w.Kind == "training" && !w.Preemptible && w.Devices[0].MilliGPU == 1000
		},
		"big": func(w psg.Workload) bool { return w.Devices[0].Count == 4 && w.Devices[0].Linked },
		"run": func(w psg.Workload) bool { return w.Tenant == "finance" && w.Tasks[0].Lifecycle == psg.Main },
	} {
		data, err := os.ReadFile(filepath.Join(examples, job+".nomad.json"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Translate(data)
		if err != nil || len(got.Workloads) != 1 || got.Workloads[0].ID.Job != job || !want(got.Workloads[0]) {
			t.Errorf("%s: %v, %+v", job, err, got.Workloads)
		}
	}
}

// TestExamples_JSONIsOfTheHCL compares each JSON file with what nomad makes of
// the HCL beside it.
func TestExamples_JSONIsOfTheHCL(t *testing.T) {
	nomad, err := exec.LookPath("nomad")
	if err != nil {
		t.Skip("SKIPPED: no nomad on PATH to read HCL with")
	}
	files, err := filepath.Glob(examples + "/*.nomad.hcl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		made, err := exec.Command(nomad, "job", "run", "-output", file).Output()
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		kept, err := os.ReadFile(strings.TrimSuffix(file, ".hcl") + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(translated(t, made), translated(t, kept)) { // other versions of nomad write other nulls
			t.Errorf("%s: run nomad job run -output and keep the result", file)
		}
	}
}

func translated(t *testing.T, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Describe(&out, data, true); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
