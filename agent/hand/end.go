package hand

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrOwn says that the agent itself is in a control group that it was to end or to
// hold back.
var ErrOwn = errors.New("this agent is in it")

// Signal sends a signal to every process of a task and returns how many there
// were. It does not thaw: a frozen process is told when it is thawed. It signals
// nobody else: each process is held by its handle and then looked for in the group
// again, so that a number that another process has by now counts for nothing.
func Signal(g Groups, signal syscall.Signal) (int, error) {
	pids, err := Processes(g)
	if err != nil {
		return 0, err
	}
	if err := notOwn(g, pids); err != nil {
		return 0, err
	}
	held, err := hold(pids)
	defer held.release()
	if err != nil {
		return 0, err
	}
	return len(pids), held.signal(g, signal)
}

// handles are processes by their numbers, which stay theirs for as long.
type handles map[int]*os.Process

func hold(pids []int) (handles, error) {
	held := make(handles, len(pids))
	for _, pid := range pids {
		process, err := os.FindProcess(pid)
		if err != nil {
			return held, fmt.Errorf("find process %d: %w", pid, err)
		}
		held[pid] = process
	}
	return held, nil
}

func (h handles) release() {
	for _, process := range h {
		_ = process.Release() // nothing was written to it
	}
}

// signal signals those that are still of the task.
func (h handles) signal(g Groups, signal syscall.Signal) error {
	still, err := Processes(g)
	if err != nil {
		return err
	}
	var failed error
	for _, pid := range still {
		if process := h[pid]; process != nil {
			if err := process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
				failed = errors.Join(failed, fmt.Errorf("signal process %d: %w", pid, err))
			}
		}
	}
	return failed
}

// NotOwn returns ErrOwn if the agent itself is in a task's control groups.
func NotOwn(g Groups) error {
	pids, err := Processes(g)
	if err != nil {
		return err
	}
	return notOwn(g, pids)
}

func notOwn(g Groups, pids []int) error {
	if slices.Contains(pids, os.Getpid()) {
		return fmt.Errorf("control group %s: %w", g.any(), ErrOwn)
	}
	return nil
}

// Processes lists the processes of a task, those of groups below its own
// included. A task whose group is gone has none.
func Processes(g Groups) ([]int, error) {
	dir := g.any()
	if dir == "" {
		return nil, ErrNoGroup
	}
	var pids []int
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
				pids = append(pids, pid)
			}
		}
		return err
	})
	if err != nil && !gone(err) {
		return nil, fmt.Errorf("list processes of control group %s: %w", dir, err)
	}
	return pids, nil
}

// any is one of the directories: each of them holds all of the task's processes.
func (g Groups) any() string {
	for _, dir := range []string{g.Freezer, g.CPU, g.Memory, g.IO} {
		if dir != "" {
			return dir
		}
	}
	return ""
}
