package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"
)

// stayLean keeps what the runtime takes for itself small. On one CPU it keeps no
// caches for the hundreds that a large node may have, wakes no threads to look
// for work, and does not wait for other threads to halt when it collects garbage:
// on a busy node those may get no CPU for milliseconds.
func stayLean() {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(50) // the heap is a few megabytes, and little is allocated
}

// niceness is what the agent runs at, where it may: the node's work waits a
// percent of a CPU longer, and what is to be done about a neighbour that takes all
// CPUs does not wait for that neighbour.
const niceness = -5

// comeFirst sets the niceness of the threads that there are; later ones inherit
// it.
func comeFirst() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // as for whoever may not: it works at the niceness it was started with, too
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, niceness)
		}
	}
}

// settled is when all that is done at the start is over.
const settled = 10 * time.Second

// forgetStart gives back the memory that the start took, once it is over: most of
// the program's text is read only then, and would stay counted as ours.
func forgetStart(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(settled):
	}
	debug.FreeOSMemory()
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("give back memory: %w", err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return fmt.Errorf("give back memory: %w", err)
	}
	for _, m := range textOf(smaps, program) {
		// What is needed is read again, from the page cache.
		if _, _, errno := syscall.Syscall(syscall.SYS_MADVISE, m.start, m.end-m.start, syscall.MADV_DONTNEED); errno != 0 {
			return fmt.Errorf("give back memory: %w", errno)
		}
	}
	return nil
}

// mapping is a range of addresses.
type mapping struct{ start, end uintptr }

// textOf finds the mappings of a program's file that nothing was ever written to:
// where the loader has, as in a program that may lie anywhere, the file does not
// have what the memory has.
func textOf(smaps []byte, program string) (found []mapping) {
	var current mapping
	candidate := false
	for line := range bytes.Lines(smaps) {
		fields := bytes.Fields(line)
		switch {
		case len(fields) == 6 && bytes.IndexByte(fields[0], '-') > 0:
			first, last, _ := bytes.Cut(fields[0], []byte{'-'})
			start, err1 := strconv.ParseUint(string(first), 16, 64)
			end, err2 := strconv.ParseUint(string(last), 16, 64)
			current = mapping{uintptr(start), uintptr(end)}
			candidate = err1 == nil && err2 == nil && start < end && fields[1][1] == '-' &&
				filepath.Clean(string(fields[5])) == program
		case len(fields) == 3 && string(fields[0]) == "Anonymous:":
			if candidate && string(fields[1]) == "0" {
				found = append(found, current)
			}
			candidate = false
		case len(fields) == 5 && bytes.IndexByte(fields[0], '-') > 0: // a mapping of no file
			candidate = false
		}
	}
	return found
}
