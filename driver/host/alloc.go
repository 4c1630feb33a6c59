package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// RunAlloc takes an allocation through its gates, starts its tasks with what
// was granted in their environment, and returns them in order. The error is the
// reason why it did not come that far; what was started is then destroyed. It
// waits as long as the gates do.
func (h *Host) RunAlloc(ctx context.Context, a Alloc) ([]TaskID, error) {
	gates, err := h.startAll(ctx, a, a.Gates, nil)
	if err == nil {
		err = h.passGates(ctx, gates)
	}
	var granted map[string]string
	if err == nil {
		granted, err = h.Granted(a.ID)
	}
	var tasks []TaskID
	if err == nil {
		tasks, err = h.startAll(ctx, a, a.Tasks, granted)
	}
	// The gates have done their work by now, or are given up.
	for _, id := range gates {
		err = errors.Join(err, h.Destroy(context.WithoutCancel(ctx), id))
	}
	if err == nil {
		return tasks, nil
	}
	for _, id := range tasks {
		err = errors.Join(err, h.Destroy(context.WithoutCancel(ctx), id))
	}
	return nil, err
}

// startAll starts tasks of an allocation, with further variables below their own.
// Beside an error it returns those that it did start.
func (h *Host) startAll(ctx context.Context, a Alloc, tasks []Task, env map[string]string) ([]TaskID, error) {
	var started []TaskID
	for _, t := range tasks {
		t.Alloc, t.Workload = a.ID, a.Workload
		own := t.Env
		t.Env = maps.Clone(env)
		if t.Env == nil {
			t.Env = map[string]string{}
		}
		maps.Copy(t.Env, own)
		id, err := h.StartTask(ctx, t)
		if err != nil {
			return started, err
		}
		started = append(started, id)
	}
	return started, nil
}

// passGates waits until all gates have opened.
func (h *Host) passGates(ctx context.Context, gates []TaskID) error {
	for _, id := range gates {
		exit, err := h.Wait(ctx, id)
		if err == nil && !exit.OK() {
			err = fmt.Errorf("gate %s ended with %+v", id, exit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Granted is what the gates of an allocation left for its other tasks; it is
// empty before.
func (h *Host) Granted(alloc psg.AllocID) (map[string]string, error) {
	granted := map[string]string{}
	text, err := os.ReadFile(filepath.Join(h.AllocDir(alloc), "alloc", "psg", "grant.env"))
	if errors.Is(err, os.ErrNotExist) {
		return granted, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read grant: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if plain, err := strconv.Unquote(value); err == nil {
			value = plain
		}
		granted[key] = value
	}
	return granted, nil
}

// AllocDir is the directory of an allocation.
func (h *Host) AllocDir(alloc psg.AllocID) string { return filepath.Join(h.config.Dir, string(alloc)) }

// makeDirs makes the directories that Nomad's client gives a task and returns
// the allocation's.
func makeDirs(root string, t Task) (string, error) {
	for name, part := range map[string]string{"allocation": string(t.Alloc), "task": t.Name} {
		if part == "" || !filepath.IsLocal(part) || filepath.Base(part) != part {
			return "", fmt.Errorf("%s id %q makes no directory name", name, part)
		}
	}
	dir := filepath.Join(root, string(t.Alloc))
	for _, below := range []struct {
		path string
		mode os.FileMode
	}{
		{"alloc/logs", 0o777}, {"alloc/tmp", 0o777}, {"alloc/data", 0o777},
		{t.Name + "/local", 0o777}, {t.Name + "/tmp", 0o777},
		{t.Name + "/secrets", 0o777}, {t.Name + "/private", 0o700},
	} {
		if err := os.MkdirAll(filepath.Join(dir, below.path), below.mode); err != nil {
			return "", fmt.Errorf("make allocation directory: %w", err)
		}
	}
	return dir, nil
}

// taskConfig is what Nomad's client sends for a task.
func (h *Host) taskConfig(id TaskID, t Task, dir string, config []byte, l *logs) *nomadpb.TaskConfig {
	env := map[string]string{
		"NOMAD_ALLOC_DIR": filepath.Join(dir, "alloc"), "NOMAD_TASK_DIR": filepath.Join(dir, t.Name, "local"),
		"NOMAD_SECRETS_DIR": filepath.Join(dir, t.Name, "secrets"), "NOMAD_ALLOC_ID": string(t.Alloc),
		"NOMAD_TASK_NAME": t.Name, "NOMAD_GROUP_NAME": t.Workload.Group, "NOMAD_JOB_ID": t.Workload.Job,
		"NOMAD_NAMESPACE": t.Workload.Namespace, "PATH": os.Getenv("PATH"),
	}
	maps.Copy(env, t.Env)
	return &nomadpb.TaskConfig{
		Id: string(id), Name: t.Name, MsgpackDriverConfig: config, Env: env, User: t.User,
		AllocDir: dir, StdoutPath: l.stdout.fifo, StderrPath: l.stderr.fifo,
		TaskGroupName: t.Workload.Group, JobName: t.Workload.Job, JobId: t.Workload.Job,
		Namespace: t.Workload.Namespace, AllocId: string(t.Alloc),
		NodeId: string(h.config.Node), NodeName: h.config.NodeName,
		Resources: &nomadpb.Resources{
			AllocatedResources: &nomadpb.AllocatedTaskResources{
				Cpu:    &nomadpb.AllocatedCpuResources{CpuShares: t.Resources[psg.CPU]},
				Memory: &nomadpb.AllocatedMemoryResources{MemoryMb: t.Resources[psg.Memory], MemoryMaxMb: t.Resources[psg.MemoryMax]},
			},
			LinuxResources: &nomadpb.LinuxResources{
				CpuShares:        t.Resources[psg.CPU],
				MemoryLimitBytes: max(t.Resources[psg.Memory], t.Resources[psg.MemoryMax]) << 20,
			},
		},
	}
}
