package executor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (g *groups) makeSeparate(l Limits) {
	hard, low := l.memory()
	if dir, ok := g.separate("memory", l); ok {
		if hard > 0 {
			g.set("memory", dir, "memory.limit_in_bytes", hard)
		}
		if low > 0 {
			g.set("memory reservation", dir, "memory.soft_limit_in_bytes", low)
		}
	}
	if dir, ok := g.separate("cpu", l); ok && l.CPUShares > 0 {
		g.set("cpu weight", dir, "cpu.shares", max(l.CPUShares, 2))
	}
	if l.CPUs != "" || l.Group != "" {
		if dir, ok := g.separate("cpuset", l); ok && l.CPUs != "" {
			g.set("cpuset", dir, "cpuset.cpus", l.CPUs)
		}
	}
	g.separate("freezer", l)
}

// separate finds the group that the orchestrator made on one hierarchy, or
// makes our own there.
func (g *groups) separate(controller string, l Limits) (string, bool) {
	if _, err := os.Stat(filepath.Join(g.root, controller)); err != nil {
		g.cannot(controller+" limits", fmt.Errorf("no %s hierarchy", controller))
		return "", false
	}
	if dir, ok := g.orchestrators(controller, l); ok {
		g.dirs = append(g.dirs, dir)
		return dir.path, true
	}
	dir := groupDir{controller: controller, path: filepath.Join(g.root, controller, l.Parent, l.Name), made: true}
	if err := os.MkdirAll(dir.path, 0o755); err != nil {
		g.cannot(controller+" limits", err)
		return "", false
	}
	if controller == "cpuset" {
		// A new cpuset is empty, and nothing may enter it: inherit, top down.
		for _, below := range []string{filepath.Dir(dir.path), dir.path} {
			inherit(below, "cpuset.cpus")
			inherit(below, "cpuset.mems")
		}
	}
	g.dirs = append(g.dirs, dir)
	return dir.path, true
}

// orchestrators is the group that Nomad made for the command on one hierarchy:
// Limits.Group is cpuset/PARENT/share or cpuset/PARENT/reserve/NAME, the others
// are CONTROLLER/PARENT/NAME.
func (g *groups) orchestrators(controller string, l Limits) (groupDir, bool) {
	below, err := filepath.Rel(filepath.Join(g.root, "cpuset"), l.Group)
	if l.Group == "" || err != nil || !filepath.IsLocal(below) {
		return groupDir{}, false
	}
	dir := groupDir{controller: controller, path: l.Group}
	if controller != "cpuset" {
		parent, _, _ := strings.Cut(below, "/share")
		parent, _, _ = strings.Cut(parent, "/reserve/")
		dir = groupDir{controller: controller, path: filepath.Join(g.root, controller, parent, l.Name)}
	}
	_, err = os.Stat(dir.path)
	return dir, err == nil
}

func inherit(dir, file string) {
	if own, err := os.ReadFile(filepath.Join(dir, file)); err != nil || len(strings.TrimSpace(string(own))) > 0 {
		return
	}
	if parent, err := os.ReadFile(filepath.Join(filepath.Dir(dir), file)); err == nil {
		_ = write(dir, file, strings.TrimSpace(string(parent)))
	}
}

// startSeparate starts a command inside its groups: this thread enters them,
// forks and leaves again.
func (g *groups) startSeparate(cmd *exec.Cmd) error {
	home := threadGroups()
	tid := strconv.Itoa(unix.Gettid())
	for i, dir := range g.dirs {
		if err := write(dir.path, "tasks", tid); err != nil {
			g.cannot(dir.controller+" group", err)
			if dir.made {
				_ = os.Remove(dir.path)
			}
			g.dirs[i].path = ""
		}
	}
	err := cmd.Start()
	for i, dir := range g.dirs {
		if dir.path != "" && !leave(filepath.Join(g.root, dir.controller), home[dir.controller], tid) {
			// What is killed or frozen with this group would include ourselves.
			g.cannot(dir.controller+" group", errors.New("it can't be left again"))
			g.dirs[i].path = ""
		}
	}
	return err
}

// leave moves a thread to the group it came from, or to the root of its
// hierarchy: in a container the path of the former may not be visible.
func leave(root, home, tid string) bool {
	return write(filepath.Join(root, home), "tasks", tid) == nil || write(root, "tasks", tid) == nil
}

// threadGroups is the path of this thread's group on each separate hierarchy.
func threadGroups() map[string]string {
	data, err := os.ReadFile("/proc/thread-self/cgroup")
	if err != nil {
		return nil
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) < 3 {
			continue
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			paths[controller] = fields[2]
		}
	}
	return paths
}
