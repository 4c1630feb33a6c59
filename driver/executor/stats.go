package executor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// userHz is the clock tick of /proc, which Linux fixes at 100 for user space.
const userHz = 100

// Usage is what a command has used so far (CPU) and uses now (memory).
type Usage struct {
	At         time.Time
	UserCPU    time.Duration
	SystemCPU  time.Duration
	RSS        uint64 // bytes, as all below
	Memory     uint64 // with cache, where a control group counts it; 0 means not known
	MaxMemory  uint64
	Cache      uint64
	Swap       uint64
	Throttled  time.Duration
	Throttles  uint64 // periods
	GroupBased bool   // a control group counted, else /proc
}

// Usage reads what the command uses: from its control groups where it has any,
// else the sum over the living processes of its session.
func (p *Process) Usage() Usage {
	u := Usage{At: time.Now()}
	var living []procStat
	if groups := p.Started.Groups; len(groups) > 0 {
		living = groupStats(groups[0]) // all hold the same processes
	} else {
		living = sessionStats(p.Started)
	}
	for _, stat := range living {
		u.UserCPU += time.Duration(stat.user) * (time.Second / userHz)
		u.SystemCPU += time.Duration(stat.sys) * (time.Second / userHz)
		u.RSS += stat.rssPages * uint64(os.Getpagesize())
	}
	for _, dir := range p.Started.Groups {
		u.readUnified(dir)
		u.readSeparate(dir)
	}
	return u
}

func (u *Usage) readUnified(dir string) {
	memory, ok := readNumber(dir, "memory.current")
	if ok {
		u.GroupBased, u.Memory = true, memory
		u.MaxMemory, _ = readNumber(dir, "memory.peak")
		u.Swap, _ = readNumber(dir, "memory.swap.current")
		stat := filepath.Join(dir, "memory.stat")
		u.Cache, _ = readKey(stat, "file")
		u.countRSS(stat, "anon")
	}
	stat := filepath.Join(dir, "cpu.stat")
	if user, ok := readKey(stat, "user_usec"); ok {
		system, _ := readKey(stat, "system_usec")
		u.UserCPU, u.SystemCPU = time.Duration(user)*time.Microsecond, time.Duration(system)*time.Microsecond
		throttled, _ := readKey(stat, "throttled_usec")
		u.Throttled = time.Duration(throttled) * time.Microsecond
		u.Throttles, _ = readKey(stat, "nr_throttled")
	}
}

func (u *Usage) readSeparate(dir string) {
	if memory, ok := readNumber(dir, "memory.usage_in_bytes"); ok {
		u.GroupBased, u.Memory = true, memory
		u.MaxMemory, _ = readNumber(dir, "memory.max_usage_in_bytes")
		stat := filepath.Join(dir, "memory.stat")
		u.Cache, _ = readKey(stat, "cache")
		u.Swap, _ = readKey(stat, "swap")
		u.countRSS(stat, "rss")
	}
	if throttled, ok := readKey(filepath.Join(dir, "cpu.stat"), "throttled_time"); ok {
		u.Throttled = time.Duration(throttled)
		u.Throttles, _ = readKey(filepath.Join(dir, "cpu.stat"), "nr_throttled")
	}
}

// countRSS takes the group's count, which misses no process; the kernel adds to
// it in batches, so that a young command has none yet.
func (u *Usage) countRSS(file, key string) {
	if rss, ok := readKey(file, key); ok && rss > 0 {
		u.RSS = rss
	}
}

func readNumber(dir, file string) (uint64, bool) {
	data, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(data)), 10, 64)
	return n, err == nil
}
