package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// groups is the control groups of one command: one on the unified hierarchy
// (v2), or one per controller on separate ones (v1).
type groups struct {
	root      string
	name      string // of the command; its own groups begin with it
	dirs      []groupDir
	unified   bool
	unapplied []string
	oomBefore uint64
}

type groupDir struct {
	controller string
	path       string
	made       bool // by us: removed at the end
}

// makeGroups finds or makes a command's groups and sets its limits. What the
// machine does not permit is noted in unapplied; the command runs all the same.
func makeGroups(root string, l Limits) *groups {
	g := groupsAt(root, nil)
	g.name = l.Name
	// Without a name of its own a group would be its parent, and killing it
	// would kill everything there.
	if l.Name == "." || l.Name == ".." || filepath.Base(l.Name) != l.Name {
		if l != (Limits{}) {
			g.cannot("limits", fmt.Errorf("%q names no control group", l.Name))
		}
		return g
	}
	if g.unified {
		g.makeUnified(l)
	} else {
		g.makeSeparate(l)
	}
	g.oomBefore = g.oomKills()
	return g
}

// memory is the hard limit and the guaranteed part, in bytes; 0 is none.
func (l Limits) memory() (hard, low int64) {
	const mib = 1 << 20
	if l.MemoryMaxMB == NoMemoryLimit {
		return 0, l.MemoryMB * mib
	}
	if l.MemoryMaxMB > l.MemoryMB {
		return l.MemoryMaxMB * mib, l.MemoryMB * mib
	}
	return l.MemoryMB * mib, 0
}

// groupsAt are groups that exist already.
func groupsAt(root string, paths []string) *groups {
	g := &groups{root: root}
	_, err := os.Stat(filepath.Join(root, "cgroup.controllers"))
	g.unified = err == nil
	for _, path := range paths {
		dir := groupDir{path: path}
		if below, err := filepath.Rel(root, path); err == nil && !g.unified {
			dir.controller, _, _ = strings.Cut(below, string(filepath.Separator))
		}
		g.dirs = append(g.dirs, dir)
	}
	return g
}

func (g *groups) set(what, dir, file string, value any) {
	if err := write(dir, file, fmt.Sprint(value)); err != nil {
		g.cannot(what, err)
	}
}

func (g *groups) cannot(what string, err error) {
	g.unapplied = append(g.unapplied, fmt.Sprintf("%s: %v", what, err))
}

func write(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// startIn starts a command inside the groups, on a thread that the caller keeps.
func (g *groups) startIn(cmd *exec.Cmd) error {
	switch {
	case len(g.dirs) == 0:
		return cmd.Start()
	case g.unified:
		return g.startUnified(cmd)
	default:
		return g.startSeparate(cmd)
	}
}

// exclusive lists the groups that hold only this command.
func (g *groups) exclusive() []string {
	var paths []string
	for _, dir := range g.dirs {
		if dir.path != "" && strings.HasPrefix(filepath.Base(dir.path), g.name) {
			paths = append(paths, dir.path)
		}
	}
	return paths
}

// oomKilled reports whether the kernel killed something here for memory since
// the groups were made.
func (g *groups) oomKilled() bool { return g.oomKills() > g.oomBefore }

func (g *groups) oomKills() uint64 {
	for _, dir := range g.dirs {
		for _, file := range []string{"memory.events", "memory.oom_control"} {
			if n, ok := readKey(filepath.Join(dir.path, file), "oom_kill"); ok && dir.path != "" {
				return n
			}
		}
	}
	return 0
}

// kill kills everything in the groups.
func (g *groups) kill() { killGroups(g.exclusive()) }

// killGroups kills until the groups are empty, for at most a second: a process
// that the kernel can't kill must not keep the task from ending. Separate
// hierarchies are frozen meanwhile, so that what forks can't run ahead.
func killGroups(dirs []string) {
	for range 100 {
		left := false
		setFreezers(dirs, "FROZEN")
		for _, dir := range dirs {
			left = killOnce(dir) || left
		}
		setFreezers(dirs, "THAWED")
		if !left {
			return
		}
		time.Sleep(pollPause)
	}
}

// killOnce kills what is in a group now and reports whether there may be more.
func killOnce(dir string) bool {
	if write(dir, "cgroup.kill", "1") == nil {
		return false
	}
	pids := groupPIDs(dir)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids) > 0
}

func setFreezers(dirs []string, state string) {
	for _, dir := range dirs {
		_ = write(dir, "freezer.state", state) // other groups have no such file
	}
}

func groupPIDs(dir string) []int {
	data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(data)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// made lists the groups that are ours to remove.
func (g *groups) made() []string {
	var paths []string
	for _, dir := range g.dirs {
		if dir.made && dir.path != "" {
			paths = append(paths, dir.path)
		}
	}
	return paths
}

func (g *groups) remove() { removeGroups(g.made()) }

// removeGroups deletes groups. One whose processes the kernel has not done with
// gets a second; then it is left: it is empty and limits nothing.
func removeGroups(paths []string) {
	for _, path := range paths {
		for range 100 {
			if err := os.Remove(path); !errors.Is(err, syscall.EBUSY) {
				break
			}
			time.Sleep(pollPause)
		}
	}
}

// readKey finds a number by its key in a file of "key value" lines.
func readKey(path, key string) (uint64, bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == key {
			n, err := strconv.ParseUint(value, 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
