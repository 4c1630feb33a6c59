package agent

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

// tenants are the tasks that run on the node, as the collector last saw them.
type tenants struct {
	mu    sync.Mutex
	seen  bool     // whether the collector has looked at all
	tasks []tenant // by allocation and task
}

// known reports whether it is known yet who runs here.
func (t *tenants) known() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen
}

// await waits until it is known who runs here, or ctx ends.
func (t *tenants) await(ctx context.Context) {
	poll := time.NewTicker(endPoll)
	defer poll.Stop()
	for !t.known() {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
		}
	}
}

// tenant is one task and its part in its allocation.
type tenant struct {
	alloc  psg.AllocID
	name   string
	groups hand.Groups
	use    float64 // of CPU, in percent of one core
	share  float64 // of its allocation's use
}

// see takes in who runs. It copies: uses are the collector's own.
func (t *tenants) see(uses []Use) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen, t.tasks = true, t.tasks[:0]
	for _, u := range uses {
		t.tasks = append(t.tasks, tenant{
			alloc: u.Alloc, name: u.Task, use: u.CPUPercent,
			groups: hand.Groups{
				Unified: u.Cgroups.Unified, CPU: u.Cgroups.CPU, Memory: u.Cgroups.Memory,
				IO: u.Cgroups.IO, Freezer: u.Cgroups.Freezer,
			},
		})
	}
}

// of returns an allocation's tasks.
func (t *tenants) of(alloc psg.AllocID) []tenant {
	t.mu.Lock()
	defer t.mu.Unlock()
	var found []tenant
	sum := 0.0
	for _, task := range t.tasks {
		if task.alloc == alloc {
			found = append(found, task)
			if known(task.use) {
				sum += task.use
			}
		}
	}
	for i := range found {
		found[i].share = 1 / float64(len(found))
		if sum > 0 && known(found[i].use) {
			found[i].share = found[i].use / sum
		}
	}
	return found
}

// allocs lists who runs here.
func (t *tenants) allocs() []psg.AllocID {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ids []psg.AllocID
	for _, task := range t.tasks {
		ids = append(ids, task.alloc)
	}
	return slices.Compact(ids)
}

// part is a task's part of its allocation's limit: of CPU what it uses of it, and
// never nothing; of the rest, whose use moves from task to task, each may have all.
func (t tenant) part(l hand.Limit) hand.Limit {
	if l.Cores > 0 {
		l.Cores = max(l.Cores*t.share, leastCores)
	}
	return l
}

// leastCores is what a throttled task is always left with: enough to answer a
// signal.
const leastCores = 0.02

// cpuInfo is what the kernel says of the node's CPUs.
type cpuInfo struct {
	cores int     // at least 1
	mhz   float64 // of the first; 0 where the kernel does not tell
}

func readCPUInfo(proc string) cpuInfo {
	text, _ := os.ReadFile(filepath.Join(proc, "cpuinfo")) // without it, a mandate tells
	info := cpuInfo{cores: max(1, bytes.Count(text, []byte("processor\t:")))}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "cpu MHz" {
			if mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64); err == nil && known(mhz) && mhz > 0 {
				info.mhz = mhz
				break
			}
		}
	}
	return info
}
