// Package cadvisor tests that what cAdvisor says of an allocation's control group
// reaches the agent. It is a module of its own, as nothing else of PSG needs
// cAdvisor: run it in its folder, as root.
package cadvisor

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/cadvisor/lib/cache/memory"
	"github.com/google/cadvisor/lib/container"
	"github.com/google/cadvisor/lib/manager"
	"github.com/google/cadvisor/lib/metrics"
	info "github.com/google/cadvisor/lib/model"
	"github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/utils/clock"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/scrape"
)

const (
	alloc = "0c3f9f1e-5a7b-4c1d-9f00-0000000cad01"
	group = "psg-cadvisor-test"
)

// task starts a process that holds 8 MiB and keeps a CPU busy, in control groups as Nomad's
// drivers name them.
func task(t *testing.T) {
	t.Helper()
	roots := []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpuacct", "/sys/fs/cgroup/memory"}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		roots = []string{"/sys/fs/cgroup"}
	}
	busy := exec.Command("sh", "-c", "read go; held=$(head -c 8388608 /dev/zero | tr '\\0' x); while :; do :; done")
	start, err := busy.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	})
	for _, root := range roots {
		dir := filepath.Join(root, group, alloc+".web")
		if err := os.MkdirAll(dir, 0o755); errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
			t.Skipf("SKIPPED: no control groups can be made here: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = busy.Process.Kill()
			for range 100 { // the kernel lets a group go when its last process is over
				if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
					break
				}
				<-time.After(20 * time.Millisecond)
			}
			_ = os.Remove(filepath.Dir(dir))
		})
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(busy.Process.Pid)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := start.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
}

// serve runs cAdvisor as its own program does, for the test's groups.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	interval, dynamic := 500*time.Millisecond, false
	included := container.MetricSet{container.CpuUsageMetrics: {}, container.MemoryUsageMetrics: {}, container.ProcessMetrics: {}}
	m, err := manager.New(memory.New(time.Minute, nil), sysfs.NewRealSysFs(),
		manager.HousekeepingConfig{Interval: &interval, AllowDynamic: &dynamic}, included, []string{"/" + group}, nil, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.NewPrometheusCollector(m, nil, included, clock.RealClock{},
		info.RequestOptions{IdType: info.TypeName, Count: 1, Recursive: true}))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(server.Close)
	return server
}

func TestScrape_UnderstandsCAdvisor(t *testing.T) {
	task(t)
	source, err := scrape.New(scrape.Config{Name: "cadvisor", URL: serve(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(500 * time.Millisecond) {
		clear(got)
		err := source.Measure(t.Context(), func(id psg.AllocID, metric string, value float64) {
			if id == alloc {
				got[metric] = value
			}
		})
		if err == nil && got["container_cpu_percent"] > 10 && got["container_memory_mb"] > 8 && got["container_processes"] == 1 {
			t.Logf("cAdvisor says %v", got)
			return
		}
	}
	t.Errorf("of the allocation only %v is known after 30 s", got)
}
