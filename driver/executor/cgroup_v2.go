package executor

import (
	"os"
	"os/exec"
	"path/filepath"
)

func (g *groups) makeUnified(l Limits) {
	dir := groupDir{path: l.Group}
	if dir.path == "" {
		dir = groupDir{path: filepath.Join(g.root, l.Parent, l.Name), made: true}
	}
	if err := os.MkdirAll(dir.path, 0o755); err != nil {
		g.cannot("limits", err)
		return
	}
	if dir.made {
		// Without these the limits below have no files; where that is refused,
		// each says so itself.
		for _, parent := range []string{g.root, filepath.Join(g.root, l.Parent)} {
			_ = write(parent, "cgroup.subtree_control", "+cpu +memory +cpuset")
		}
	}
	g.dirs = append(g.dirs, dir)
	hard, low := l.memory()
	if hard > 0 {
		g.set("memory", dir.path, "memory.max", hard)
	}
	if low > 0 {
		g.set("memory reservation", dir.path, "memory.low", low)
	}
	if l.CPUShares > 0 {
		// The kernel's own mapping of shares 2..262144 to weights 1..10000.
		shares := min(max(l.CPUShares, 2), 262144)
		g.set("cpu weight", dir.path, "cpu.weight", 1+(shares-2)*9999/262142)
	}
	if l.CPUs != "" {
		g.set("cpuset", dir.path, "cpuset.cpus", l.CPUs)
	}
}

// startUnified starts a command inside its group.
func (g *groups) startUnified(cmd *exec.Cmd) error {
	dir, err := os.Open(g.dirs[0].path)
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return cmd.Start()
}
