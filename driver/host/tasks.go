package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// ErrUnknownTask says that the host started no such task, or has destroyed it.
var ErrUnknownTask = errors.New("unknown task")

// task is one start, with what Nomad would keep of it.
type task struct {
	id     TaskID
	handle *nomadpb.TaskHandle
	logs   *logs
}

// StartTask starts a task; it waits at its gate when StartTask returns.
func (h *Host) StartTask(ctx context.Context, t Task) (TaskID, error) {
	h.mu.Lock()
	h.starts++
	id := TaskID(fmt.Sprintf("%s/%s/%08x", t.Alloc, t.Name, h.starts))
	schema, c := h.schema, h.client
	h.mu.Unlock()
	config, err := encode(schema, t.Config)
	if err != nil {
		return "", fmt.Errorf("task config: %w", err)
	}
	dir, err := makeDirs(h.config.Dir, t)
	if err != nil {
		return "", err
	}
	collected, err := collect(dir, t.Name)
	if err != nil {
		return "", err
	}
	started, err := c.driver.StartTask(ctx, &nomadpb.StartTaskRequest{Task: h.taskConfig(id, t, dir, config, collected)})
	if err != nil {
		return "", errors.Join(fmt.Errorf("start task %s: %w", id, err), collected.close())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tasks[id] = &task{id: id, handle: started.GetHandle(), logs: collected}
	return id, nil
}

func (h *Host) known(id TaskID) (*task, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tasks[id]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w %s", ErrUnknownTask, id)
}

// Wait returns how a task ended, once it has. It lasts through the death of the
// plugin, until Reattach.
func (h *Host) Wait(ctx context.Context, id TaskID) (Exit, error) {
	if _, err := h.known(id); err != nil {
		return Exit{}, err
	}
	for {
		h.mu.Lock()
		c, replaced := h.client, h.replaced
		h.mu.Unlock()
		done, err := c.driver.WaitTask(ctx, &nomadpb.WaitTaskRequest{TaskId: string(id)})
		if err == nil {
			exit := exitOf(done.GetResult())
			exit.Error = done.GetErr()
			return exit, nil
		}
		// Canceled, while ctx is not, is a call that met its connection's close.
		gone := status.Code(err) == codes.Unavailable || status.Code(err) == codes.Canceled
		if !gone || ctx.Err() != nil {
			return Exit{}, fmt.Errorf("wait for task %s: %w", id, err)
		}
		select {
		case <-replaced:
		case <-ctx.Done():
			return Exit{}, ctx.Err()
		}
	}
}

// Stop ends a task and returns once it has ended: signal now, an interrupt when
// empty, and SIGKILL after timeout.
func (h *Host) Stop(ctx context.Context, id TaskID, signal string, timeout time.Duration) error {
	if _, err := h.known(id); err != nil {
		return err
	}
	_, err := h.current().driver.StopTask(ctx, &nomadpb.StopTaskRequest{
		TaskId: string(id), Signal: signal, Timeout: durationpb.New(timeout),
	})
	if err != nil {
		return fmt.Errorf("stop task %s: %w", id, err)
	}
	return nil
}

// Signal sends a signal, such as "SIGHUP", to a task's first process.
func (h *Host) Signal(ctx context.Context, id TaskID, signal string) error {
	_, err := h.current().driver.SignalTask(ctx, &nomadpb.SignalTaskRequest{TaskId: string(id), Signal: signal})
	if err != nil {
		return fmt.Errorf("signal task %s: %w", id, err)
	}
	return nil
}

// Exec runs a command beside a task.
func (h *Host) Exec(ctx context.Context, id TaskID, command []string, timeout time.Duration) (stdout, stderr []byte, exit Exit, err error) {
	ran, err := h.current().driver.ExecTask(ctx, &nomadpb.ExecTaskRequest{
		TaskId: string(id), Command: command, Timeout: durationpb.New(timeout),
	})
	if err != nil {
		return nil, nil, Exit{}, fmt.Errorf("exec in task %s: %w", id, err)
	}
	return ran.GetStdout(), ran.GetStderr(), exitOf(ran.GetResult()), nil
}

// Inspect says what the driver knows of a task.
func (h *Host) Inspect(ctx context.Context, id TaskID) (Status, error) {
	found, err := h.current().driver.InspectTask(ctx, &nomadpb.InspectTaskRequest{TaskId: string(id)})
	if err != nil {
		return Status{}, fmt.Errorf("inspect task %s: %w", id, err)
	}
	return statusOf(found), nil
}

// Stats calls send with what a task uses until ctx ends, the task ends or send
// returns false.
func (h *Host) Stats(ctx context.Context, id TaskID, interval time.Duration, send func(Usage) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := h.current().driver.TaskStats(ctx, &nomadpb.TaskStatsRequest{
		TaskId: string(id), CollectionInterval: durationpb.New(interval),
	})
	if err != nil {
		return fmt.Errorf("stats of task %s: %w", id, err)
	}
	for {
		got, err := stream.Recv()
		if err != nil {
			return fmt.Errorf("stats of task %s: %w", id, err)
		}
		used := got.GetStats().GetAggResourceUsage()
		if !send(Usage{CPUPercent: used.GetCpu().GetPercent(), RSS: used.GetMemory().GetRss(), Memory: used.GetMemory().GetUsage()}) {
			return nil
		}
	}
}

// Destroy kills a task if it runs, forgets it and finishes its log files.
func (h *Host) Destroy(ctx context.Context, id TaskID) error {
	t, err := h.known(id)
	if err != nil {
		return err
	}
	_, err = h.current().driver.DestroyTask(ctx, &nomadpb.DestroyTaskRequest{TaskId: string(id), Force: true})
	if err != nil && status.Code(err) != codes.NotFound {
		return fmt.Errorf("destroy task %s: %w", id, err)
	}
	h.mu.Lock()
	delete(h.tasks, id)
	h.mu.Unlock()
	return t.logs.close()
}
