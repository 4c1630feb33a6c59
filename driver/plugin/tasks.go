package plugin

import (
	"context"
	"errors"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// StartTask starts a task and returns at once: the task waits at its gate.
func (s *server) StartTask(_ context.Context, req *nomadpb.StartTaskRequest) (*nomadpb.StartTaskResponse, error) {
	task, err := taskOf(req.GetTask())
	if err != nil {
		return nil, startFailure(err, false)
	}
	handle, err := s.driver.Start(task)
	if err != nil {
		return nil, startFailure(err, !errors.Is(err, driver.ErrRefused))
	}
	state, err := handle.Encode()
	if err != nil {
		return nil, failure(err)
	}
	return &nomadpb.StartTaskResponse{Handle: &nomadpb.TaskHandle{
		Version: handleVersion, Config: req.GetTask(), State: nomadpb.TaskState_RUNNING, DriverState: state,
	}}, nil
}

// startFailure tells Nomad whether another try may help.
func startFailure(err error, recoverable bool) error {
	failed, detailErr := status.New(codes.FailedPrecondition, err.Error()).
		WithDetails(&nomadpb.RecoverableError{Recoverable: recoverable})
	if detailErr != nil {
		return failure(err)
	}
	return failed.Err()
}

// RecoverTask takes up a task that an earlier process of the plugin started.
func (s *server) RecoverTask(_ context.Context, req *nomadpb.RecoverTaskRequest) (*nomadpb.RecoverTaskResponse, error) {
	handle, err := driver.DecodeHandle(req.GetHandle().GetDriverState())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	task, err := taskOf(req.GetHandle().GetConfig())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.driver.Recover(task, handle); err != nil {
		return nil, failure(err)
	}
	return &nomadpb.RecoverTaskResponse{}, nil
}

// WaitTask returns how a task ended, once it has.
func (s *server) WaitTask(ctx context.Context, req *nomadpb.WaitTaskRequest) (*nomadpb.WaitTaskResponse, error) {
	exit, err := s.driver.Wait(ctx, req.GetTaskId())
	if err != nil {
		return nil, failure(err)
	}
	return &nomadpb.WaitTaskResponse{Result: exitResult(exit), Err: exit.Error}, nil
}

// StopTask ends a task and returns once it has ended. Like raw_exec's, it
// interrupts when the job names no signal.
func (s *server) StopTask(ctx context.Context, req *nomadpb.StopTaskRequest) (*nomadpb.StopTaskResponse, error) {
	sig, err := signalNamed(req.GetSignal(), syscall.SIGINT)
	if err != nil {
		return nil, err
	}
	if err := s.driver.Stop(ctx, req.GetTaskId(), sig, req.GetTimeout().AsDuration()); err != nil {
		return nil, failure(err)
	}
	return &nomadpb.StopTaskResponse{}, nil
}

// DestroyTask forgets a task that has ended, or kills it first when forced.
func (s *server) DestroyTask(ctx context.Context, req *nomadpb.DestroyTaskRequest) (*nomadpb.DestroyTaskResponse, error) {
	if err := s.driver.Destroy(ctx, req.GetTaskId(), req.GetForce()); err != nil {
		return nil, failure(err)
	}
	return &nomadpb.DestroyTaskResponse{}, nil
}

// InspectTask says what is known of a task.
func (s *server) InspectTask(_ context.Context, req *nomadpb.InspectTaskRequest) (*nomadpb.InspectTaskResponse, error) {
	found, err := s.driver.Inspect(req.GetTaskId())
	if err != nil {
		return nil, failure(err)
	}
	return taskStatus(found), nil
}

// SignalTask sends a signal to a task's first process.
func (s *server) SignalTask(_ context.Context, req *nomadpb.SignalTaskRequest) (*nomadpb.SignalTaskResponse, error) {
	sig, err := signalNamed(req.GetSignal(), 0)
	if err != nil {
		return nil, err
	}
	if sig == 0 {
		return nil, status.Error(codes.InvalidArgument, "no signal given")
	}
	if err := s.driver.Signal(req.GetTaskId(), sig); err != nil {
		return nil, failure(err)
	}
	return &nomadpb.SignalTaskResponse{}, nil
}

// TaskStats streams what a task uses until it ends or the caller goes.
func (s *server) TaskStats(req *nomadpb.TaskStatsRequest, stream nomadpb.Driver_TaskStatsServer) error {
	interval := time.Second
	if d := req.GetCollectionInterval().AsDuration(); d > 0 {
		interval = d
	}
	return failure(s.driver.Stats(stream.Context(), req.GetTaskId(), interval, func(u driver.Usage) error {
		return stream.Send(&nomadpb.TaskStatsResponse{Stats: taskStats(req.GetTaskId(), u)})
	}))
}

// TaskEvents streams what users should know of all tasks.
func (s *server) TaskEvents(_ *nomadpb.TaskEventsRequest, stream nomadpb.Driver_TaskEventsServer) error {
	return failure(s.driver.Events(stream.Context(), func(e driver.Event) error {
		return stream.Send(taskEvent(e))
	}))
}

// CreateNetwork is refused: Nomad makes the networks of groups.
func (s *server) CreateNetwork(context.Context, *nomadpb.CreateNetworkRequest) (*nomadpb.CreateNetworkResponse, error) {
	return nil, status.Error(codes.Unimplemented, "the psg driver makes no networks: Nomad does")
}

// DestroyNetwork is refused, as CreateNetwork is.
func (s *server) DestroyNetwork(context.Context, *nomadpb.DestroyNetworkRequest) (*nomadpb.DestroyNetworkResponse, error) {
	return nil, status.Error(codes.Unimplemented, "the psg driver makes no networks: Nomad does")
}
