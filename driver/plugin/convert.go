package plugin

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
	"github.com/psgrid/psg/hclspec"
)

// taskOf reads a task as Nomad hands it over.
func taskOf(c *nomadpb.TaskConfig) (driver.Task, error) {
	config, err := decodeConfig(c.GetMsgpackDriverConfig())
	if err != nil {
		return driver.Task{}, err
	}
	stanza, err := hclspec.DecodeStanza(config)
	if err != nil {
		return driver.Task{}, fmt.Errorf("task config: %w", err)
	}
	env := make(map[string]string, len(c.GetEnv())+len(c.GetDeviceEnv()))
	for _, source := range []map[string]string{c.GetEnv(), c.GetDeviceEnv()} {
		for key, value := range source {
			env[key] = value
		}
	}
	return driver.Task{
		ID:       c.GetId(),
		Name:     c.GetName(),
		Workload: psg.WorkloadID{Namespace: c.GetNamespace(), Job: c.GetJobId(), Group: c.GetTaskGroupName()},
		Alloc:    psg.AllocID(c.GetAllocId()),
		Node:     psg.NodeID(c.GetNodeId()),
		NodeName: c.GetNodeName(),
		AllocDir: c.GetAllocDir(),
		Env:      env,
		User:     c.GetUser(),
		Stdout:   c.GetStdoutPath(),
		Stderr:   c.GetStderrPath(),
		NetNS:    c.GetNetworkIsolationSpec().GetPath(),
		Limits:   limitsOf(c),
		Stanza:   stanza,
	}, nil
}

// limitsOf reads what a task may use. The name is the one that Nomad gives its
// own control groups for the task.
func limitsOf(c *nomadpb.TaskConfig) executor.Limits {
	asked, linux := c.GetResources().GetAllocatedResources(), c.GetResources().GetLinuxResources()
	return executor.Limits{
		CPUShares:   linux.GetCpuShares(),
		MemoryMB:    asked.GetMemory().GetMemoryMb(),
		MemoryMaxMB: asked.GetMemory().GetMemoryMaxMb(),
		CPUs:        linux.GetCpusetCpus(),
		Group:       linux.GetCpusetCgroup(),
		Name:        c.GetAllocId() + "." + c.GetName(),
	}
}

func exitResult(exit executor.Exit) *nomadpb.ExitResult {
	return &nomadpb.ExitResult{ExitCode: int32(exit.Code), Signal: int32(exit.Signal), OomKilled: exit.OOM}
}

func taskStatus(s driver.Status) *nomadpb.InspectTaskResponse {
	status := &nomadpb.TaskStatus{Id: s.ID, Name: s.Name, State: nomadpb.TaskState_RUNNING, StartedAt: timestamppb.New(s.Started)}
	attributes := map[string]string{"gate": s.Told}
	if s.PID != 0 {
		attributes["pid"] = fmt.Sprint(s.PID)
	}
	if s.Exit != nil {
		status.State = nomadpb.TaskState_EXITED
		status.CompletedAt = timestamppb.New(s.Completed)
		status.Result = exitResult(*s.Exit)
	}
	return &nomadpb.InspectTaskResponse{Task: status, Driver: &nomadpb.TaskDriverStatus{Attributes: attributes}}
}

func taskStats(id string, u driver.Usage) *nomadpb.TaskStats {
	const kindsOfMemory = 5
	memory := &nomadpb.MemoryUsage{
		Rss: u.RSS, Cache: u.Cache, MaxUsage: u.MaxMemory, Usage: u.Memory, Swap: u.Swap,
		MeasuredFields: []nomadpb.MemoryUsage_Fields{nomadpb.MemoryUsage_RSS},
	}
	if u.GroupBased {
		memory.MeasuredFields = append(make([]nomadpb.MemoryUsage_Fields, 0, kindsOfMemory),
			nomadpb.MemoryUsage_RSS, nomadpb.MemoryUsage_CACHE, nomadpb.MemoryUsage_MAX_USAGE,
			nomadpb.MemoryUsage_USAGE, nomadpb.MemoryUsage_SWAP)
	}
	return &nomadpb.TaskStats{
		Id: id, Timestamp: timestamppb.New(u.At),
		AggResourceUsage: &nomadpb.TaskResourceUsage{
			Memory: memory,
			Cpu: &nomadpb.CPUUsage{
				SystemMode: u.SystemPercent, UserMode: u.UserPercent, TotalTicks: u.MHz,
				ThrottledPeriods: u.Throttles, ThrottledTime: uint64(u.Throttled / time.Nanosecond),
				Percent: u.UserPercent + u.SystemPercent,
				MeasuredFields: []nomadpb.CPUUsage_Fields{
					nomadpb.CPUUsage_SYSTEM_MODE, nomadpb.CPUUsage_USER_MODE, nomadpb.CPUUsage_TOTAL_TICKS,
					nomadpb.CPUUsage_THROTTLED_PERIODS, nomadpb.CPUUsage_THROTTLED_TIME, nomadpb.CPUUsage_PERCENT,
				},
			},
		},
	}
}

func taskEvent(e driver.Event) *nomadpb.DriverTaskEvent {
	return &nomadpb.DriverTaskEvent{
		TaskId: e.TaskID, TaskName: e.TaskName, AllocId: string(e.Alloc),
		Timestamp: timestamppb.New(e.At), Message: e.Message,
	}
}

// coreMHz is the mean speed of the cores that Nomad found; each core's base
// speed where it is known, as Nomad itself prefers.
func coreMHz(c *nomadpb.NomadConfig) float64 {
	cores := c.GetDriver().GetTopology().GetCores()
	total := 0.0
	for _, core := range cores {
		speed := core.GetBaseSpeed()
		if speed == 0 {
			speed = core.GetMaxSpeed()
		}
		if speed == 0 {
			speed = core.GetGuessSpeed()
		}
		total += float64(speed)
	}
	return total / float64(max(1, len(cores)))
}
