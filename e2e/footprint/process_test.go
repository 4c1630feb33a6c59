package footprint

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cost is what a process has used so far, and holds now.
type cost struct {
	at    time.Time
	cpu   time.Duration
	rssMB float64
}

func costOf(t *testing.T, pid int) cost {
	t.Helper()
	stat := read(t, pid, "stat")
	// Fields are counted from the one that follows the name in brackets.
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	c := cost{at: time.Now()}
	var user, system, pages int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12]+" "+fields[21], &user, &system, &pages); err != nil {
		t.Fatal(err)
	}
	c.cpu = time.Duration(user+system) * 10 * time.Millisecond
	c.rssMB = float64(pages) * float64(os.Getpagesize()) / (1 << 20)
	return c
}

// since is the share of one core that was used since an earlier cost, in
// percent.
func (c cost) since(before cost) float64 {
	return 100 * (c.cpu - before.cpu).Seconds() / c.at.Sub(before.at).Seconds()
}

func read(t *testing.T, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// niceness lists what a process's threads run at.
func niceness(t *testing.T, pid int) (found []string) {
	t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		if stat, err := os.ReadFile(path); err == nil {
			found = append(found, strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[16])
		}
	}
	return found
}

// kernelFiles lists the files of the kernel that a process holds open.
func kernelFiles(t *testing.T, pid int) []string {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err == nil && (strings.HasPrefix(target, "/sys/fs/cgroup/") || strings.HasPrefix(target, "/proc/")) {
			// What stands below /proc/net is each process's own.
			files = append(files, strings.Replace(target, fmt.Sprintf("/proc/%d/", pid), "/proc/self/", 1))
		}
	}
	return files
}

// pauses sums up what the Go runtime says of its collections of garbage when
// GODEBUG has gctrace=1: the world stands still at the start and the end of
// each.
type pauses struct {
	collections int
	longest     time.Duration
}

func pausesIn(log []byte) (p pauses) {
	for line := range bytes.Lines(log) {
		_, rest, ok := strings.Cut(string(line), ": ")
		if !strings.HasPrefix(string(line), "gc ") || !ok {
			continue
		}
		var start, end float64
		clock, _, _ := strings.Cut(rest, " ms clock")
		parts := strings.Split(clock, "+")
		if len(parts) != 3 {
			continue
		}
		if _, err := fmt.Sscan(parts[0]+" "+parts[2], &start, &end); err != nil {
			continue
		}
		p.collections++
		p.longest = max(p.longest, time.Duration(max(start, end)*float64(time.Millisecond)))
	}
	return p
}
