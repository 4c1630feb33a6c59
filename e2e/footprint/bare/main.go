// Command bare reads files as often as psg-agent does, and does nothing with
// what it reads, until it is killed: it is what the agent is compared with. The
// files' names come on its input, one a line.
package main

import (
	"bufio"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// seldom lists the files that the agent reads once a second.
func seldom() []string {
	return []string{
		"memory.stat", "memory.oom_control", "memory.max", "memory.events", "io.stat", "snmp", "netstat",
		"blkio.throttle.io_service_bytes_recursive", "blkio.throttle.io_serviced_recursive",
		"cpu.pressure", "memory.pressure", "io.pressure", "cpu", "memory", "io",
	}
}

func main() {
	var often, rarely []int
	rare := seldom()
	for names := bufio.NewScanner(os.Stdin); names.Scan(); {
		fd, err := syscall.Open(names.Text(), syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			continue // a workload that has ended meanwhile
		}
		if slices.Contains(rare, filepath.Base(names.Text())) {
			rarely = append(rarely, fd)
		} else {
			often = append(often, fd)
		}
	}
	buffer := make([]byte, 64<<10)
	tick := time.NewTicker(200 * time.Millisecond)
	for i := 0; ; i++ {
		<-tick.C
		for _, fd := range often {
			_, _ = syscall.Pread(fd, buffer, 0)
		}
		// A fifth at a time, as the agent spreads them.
		for n := i % 5; n < len(rarely); n += 5 {
			_, _ = syscall.Pread(rarely[n], buffer, 0)
		}
	}
}
