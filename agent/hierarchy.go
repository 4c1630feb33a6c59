package agent

import (
	"os"
	"path/filepath"
	"strings"
)

// hierarchy is how the node's control groups are laid out: all controllers on
// the unified hierarchy (v2), or each on one of its own (v1). On a hybrid
// machine the controllers are on v1: the unified hierarchy beside them has none
// and is not looked at. Directories are empty where there is no such hierarchy.
type hierarchy struct {
	root                             string
	unified                          bool
	cpu, cpuAcct, memory, io, frozen string
	hybrid                           bool
}

// hierarchyAt looks at what is mounted below root.
func hierarchyAt(root string) hierarchy {
	h := hierarchy{root: root}
	if exists(filepath.Join(root, "cgroup.controllers")) {
		h.unified = true
		h.cpu, h.cpuAcct, h.memory, h.io, h.frozen = root, root, root, root, root
		return h
	}
	h.cpu = firstOf(root, "cpu", "cpu,cpuacct", "cpuacct,cpu")
	h.cpuAcct = firstOf(root, "cpuacct", "cpu,cpuacct", "cpuacct,cpu")
	h.memory = firstOf(root, "memory")
	h.io = firstOf(root, "blkio")
	h.frozen = firstOf(root, "freezer")
	h.hybrid = exists(filepath.Join(root, "unified/cgroup.controllers"))
	return h
}

func firstOf(root string, names ...string) string {
	for _, name := range names {
		if dir := filepath.Join(root, name); exists(dir) {
			return dir
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// walked is the hierarchy in which workloads are looked for: every driver puts
// its processes there.
func (h hierarchy) walked() string {
	for _, dir := range []string{h.frozen, h.memory, h.cpu} {
		if dir != "" {
			return dir
		}
	}
	return ""
}

// groupsOf are the control groups at one path, from the root of each hierarchy.
func (h hierarchy) groupsOf(path string) Cgroups {
	if h.unified {
		dir := filepath.Join(h.root, path)
		return Cgroups{Unified: true, CPU: dir, CPUAcct: dir, Memory: dir, IO: dir, Freezer: dir}
	}
	in := func(root string) string {
		if dir := filepath.Join(root, path); root != "" && exists(dir) {
			return dir
		}
		return ""
	}
	return Cgroups{CPU: in(h.cpu), CPUAcct: in(h.cpuAcct), Memory: in(h.memory), IO: in(h.io), Freezer: in(h.frozen)}
}

// String says what there is, for people.
func (h hierarchy) String() string {
	if h.unified {
		return "unified (v2) at " + h.root
	}
	var found []string
	for _, dir := range []string{h.cpu, h.cpuAcct, h.memory, h.io, h.frozen} {
		if name := filepath.Base(dir); dir != "" && (len(found) == 0 || found[len(found)-1] != name) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return "none at " + h.root
	}
	kind := "separate (v1)"
	if h.hybrid {
		kind = "hybrid: separate (v1) with a unified one beside"
	}
	return kind + " at " + h.root + ": " + strings.Join(found, ", ")
}
