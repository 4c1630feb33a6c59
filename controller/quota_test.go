package controller

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/policies"
)

const quotaBundle = `
bundle "quotas" {}
policy "gpu_quota" {
  rego   = "gpu_quota.rego"
  params = { milli_gpu = { search = 300 } }
}
`

const quotaRego = `package gpu_quota

used := object.get(data.cluster.tenants, [input.workload.tenant, "used", "milli_gpu"], 0)

deny contains reason if {
	quota := data.params.milli_gpu[input.workload.tenant]
	used + input.workload.milli_gpu > quota
	reason := sprintf("tenant %s uses %d of its %d milli-GPU, %d more are wanted", [input.workload.tenant, used, quota, input.workload.milli_gpu])
}
`

// TestCase_G4_QuotaInWholeNumbers: a quota of 0.3 GPU, 0.1 used, 0.2 wanted:
// admitted, for 0.1 + 0.2 is 0.3; of another 0.001 nothing.
func TestCase_G4_QuotaInWholeNumbers(t *testing.T) {
	known := jobs{}
	share := func(job string, milli int64) psg.Workload {
		w := workload(job, "inference", 16)
		w.Tenant, w.Devices = "search", []psg.DeviceAsk{{Name: "gpu", Count: 1, MilliGPU: milli}}
		known[w.ID] = w
		return w
	}
	first, second, third := share("first", 100), share("second", 200), share("third", 1)
	dir := t.TempDir()
	for name, text := range map[string]string{"bundle.hcl": quotaBundle, "gpu_quota.rego": quotaRego} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules, err := policies.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, tempLog(t), known)
	w.policy = func() Policy { return rules }
	w.report(psg.NodeChanged{Node: testNode("n1")})
	for _, job := range []psg.Workload{first, second} {
		if order := w.place(0, gate(job, job.ID.Job, "n1"))[0]; order.Kind != psg.Grant {
			t.Fatalf("%s: %+v", job.ID.Job, order.Refusal)
		}
	}
	order := w.place(0, gate(third, "third", "n1"))[0]
	if order.Kind != psg.Wait || !strings.Contains(order.Refusal.Summary, "uses 300 of its 300 milli-GPU, 1 more are wanted") {
		t.Errorf("third: %+v %+v", order, order.Refusal)
	}
	w.checkLog()
}
