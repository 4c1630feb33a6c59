package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// node is a machine's proc and sys file systems in a directory.
type node struct {
	t          testing.TB
	dir        string // proc
	sys        string
	groups     string
	busy, idle int
	tasks      int
}

func newNode(t testing.TB) *node {
	root := t.TempDir()
	n := &node{t: t, dir: filepath.Join(root, "proc"), sys: filepath.Join(root, "sys"), groups: filepath.Join(root, "sys/fs/cgroup")}
	n.spend(1000, 1000)
	n.write("meminfo", "MemTotal:       4096 kB\nMemFree:  0 kB\nMemAvailable:   1024 kB\nSwapTotal:      4096 kB\nSwapFree:       2048 kB\n")
	n.write("loadavg", "1.50 1.00 0.50 1/2 3\n")
	n.counters(false)
	n.dirs(n.sys, "block/nvme0n1/slaves", "block/dm-0/slaves/nvme0n1", "block/loop0/slaves", "class/net/eth0/device", "class/net/lo", "class/net/veth1")
	n.file(n.groups, "cgroup.controllers", "cpu io memory pids\n")
	return n
}

// progress makes the counters that have no other method go on, as if in a
// second.
func (n *node) progress() { n.counters(true) }

func (n *node) counters(later bool) {
	pick := func(before, after int) int {
		if later {
			return after
		}
		return before
	}
	for _, resource := range []string{"cpu", "memory", "io"} {
		n.write("pressure/"+resource, fmt.Sprintf("some avg10=2.50 avg60=0.00 avg300=0.00 total=%d\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=%d\n",
			pick(0, 500_000), pick(1000, 251_000)))
	}
	// Partitions and memory count nowhere, stacked devices not in the total.
	row := func(name string) string {
		return fmt.Sprintf(" 259 0 %s %d 0 %d %d %d 0 %d %d 3 %d 99 0 0 0 0 0 0\n", name,
			pick(100, 108), pick(1000, 9192), pick(10, 50), pick(200, 202), pick(5000, 7048), pick(10, 20), pick(400, 900))
	}
	n.write("diskstats", row("loop0")+row("nvme0n1")+row("nvme0n1p1")+row("dm-0"))
	link := func(name string) string {
		return fmt.Sprintf("%6s: %d 9 %d %d 0 0 0 0 %d 9 %d %d 0 0 0 0\n", name,
			pick(0, 1_000_000), pick(1, 2), pick(1, 4), pick(0, 2_000_000), pick(1, 3), pick(1, 5))
	}
	n.write("net/dev", "Inter-|   Receive\n face |bytes\n"+link("lo")+link("eth0")+link("veth1"))
	n.write("net/snmp", fmt.Sprintf("Ip: Forwarding\nIp: 2\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs\nTcp: 1 -1 %d %d\n", pick(100, 118), pick(5, 7)))
	n.write("net/netstat", fmt.Sprintf("TcpExt: ListenDrops TCPLostRetransmit TCPTimeouts\nTcpExt: %d %d %d\n", pick(5, 10), pick(1, 2), pick(0, 3)))
}

func (n *node) dirs(root string, paths ...string) {
	n.t.Helper()
	for _, path := range paths {
		if err := os.MkdirAll(filepath.Join(root, path), 0o755); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *node) file(root, path, text string) {
	n.t.Helper()
	n.dirs(root, filepath.Dir(path))
	if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

// write makes a file of proc.
func (n *node) write(path, text string) {
	n.t.Helper()
	n.file(n.dir, path, text)
}

// spend lets CPU time pass, in ticks.
func (n *node) spend(busy, idle int) {
	n.t.Helper()
	n.busy += busy
	n.idle += idle
	n.write("stat", fmt.Sprintf("cpu  %d 0 0 %d 0 0 0 0 0 0\n", n.busy, n.idle))
}

func (n *node) remove(path string) {
	n.t.Helper()
	if err := os.Remove(filepath.Join(n.dir, path)); err != nil {
		n.t.Fatal(err)
	}
}

func configOf(n *node) Config {
	return Config{Node: "node-1", Proc: n.dir, Sys: n.sys, Log: slog.New(slog.DiscardHandler)}
}

// allocOf is the ID of the node's i-th allocation.
func allocOf(i int) string { return fmt.Sprintf("0000000%d-aaaa-bbbb-cccc-0123456789ab", i) }

// container makes a process of a container what Nomad's docker driver makes it.
func (n *node) container(pid, alloc int, task string) {
	n.t.Helper()
	n.write(fmt.Sprintf("%d/environ", pid), "PATH=/bin\x00NOMAD_TASK_NAME="+task+"\x00NOMAD_ALLOC_ID="+allocOf(alloc)+"\x00")
	n.write(fmt.Sprintf("%d/mountinfo", pid), "900 800 0:50 / / rw,relatime - overlay overlay rw\n"+
		"901 900 254:1 /nomad/alloc/"+allocOf(alloc)+"/alloc /alloc rw,relatime - ext4 /dev/vda1 rw\n")
}

// unifiedTask makes the control group that Nomad makes for another allocation's
// task, with a process in it, and returns its path below the root.
func (n *node) unifiedTask(task string) string {
	dir := "nomad.slice/share.slice/" + allocOf(n.tasks) + "." + task + ".scope"
	n.tasks++
	n.unifiedGroup(dir, 4000+n.tasks)
	return dir
}

// unifiedGroup makes a control group of version 2.
func (n *node) unifiedGroup(dir string, pid int) {
	for name, text := range map[string]string{
		"cgroup.procs": fmt.Sprintf("%d\n", pid), "cgroup.events": "populated 1\nfrozen 0\n",
		"cpu.stat":       "usage_usec 1000000\nuser_usec 1\nsystem_usec 1\nnr_periods 10\nnr_throttled 1\nthrottled_usec 5\n",
		"memory.current": "3145728\n", "memory.max": "max\n",
		"memory.stat":     "anon 1\nfile 1\ninactive_anon 7\ninactive_file 1048576\n",
		"memory.events":   "low 0\nhigh 0\nmax 0\noom 1\noom_kill 2\n",
		"io.stat":         "254:0 rbytes=1048576 wbytes=0 rios=1 wios=0 dbytes=0 dios=0\n",
		"cpu.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"io.pressure":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	} {
		n.file(n.groups, filepath.Join(dir, name), text)
	}
}

func (n *node) removeGroup(dir string) {
	n.t.Helper()
	if err := os.RemoveAll(filepath.Join(n.groups, dir)); err != nil {
		n.t.Fatal(err)
	}
}
