package plugin

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/psgrid/psg/driver"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// ExecTask runs a command beside a task and returns its output.
func (s *server) ExecTask(ctx context.Context, req *nomadpb.ExecTaskRequest) (*nomadpb.ExecTaskResponse, error) {
	stdout, stderr, exit, err := s.driver.Exec(ctx, req.GetTaskId(), req.GetCommand(), req.GetTimeout().AsDuration())
	if err != nil {
		return nil, failure(err)
	}
	return &nomadpb.ExecTaskResponse{Stdout: stdout, Stderr: stderr, Result: exitResult(exit)}, nil
}

// ExecTaskStreaming runs a command beside a task with its streams.
func (s *server) ExecTaskStreaming(stream nomadpb.Driver_ExecTaskStreamingServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	setup := first.GetSetup()
	if setup == nil {
		return status.Error(codes.InvalidArgument, "the first message of an exec must be its setup")
	}
	send := oneAtATime(stream)
	stdin, typed := io.Pipe()
	defer stdin.Close()
	sizes := make(chan driver.Size, 1)
	go receive(stream, typed, sizes) // ends with the stream
	exit, err := s.driver.ExecSession(stream.Context(), setup.GetTaskId(), driver.Session{
		Command: setup.GetCommand(), TTY: setup.GetTty(), Stdin: stdin, Resize: sizes,
		Stdout: output(func(op *nomadpb.ExecTaskStreamingIOOperation) error {
			return send(&nomadpb.ExecTaskStreamingResponse{Stdout: op})
		}),
		Stderr: output(func(op *nomadpb.ExecTaskStreamingIOOperation) error {
			return send(&nomadpb.ExecTaskStreamingResponse{Stderr: op})
		}),
	})
	if err != nil {
		return failure(err)
	}
	for _, end := range []*nomadpb.ExecTaskStreamingResponse{
		{Stdout: &nomadpb.ExecTaskStreamingIOOperation{Close: true}},
		{Stderr: &nomadpb.ExecTaskStreamingIOOperation{Close: true}},
		{Exited: true, Result: exitResult(exit)},
	} {
		if err := send(end); err != nil {
			return err
		}
	}
	return nil
}

// oneAtATime sends on a stream as gRPC demands: stdout and stderr are two senders.
func oneAtATime(stream nomadpb.Driver_ExecTaskStreamingServer) func(*nomadpb.ExecTaskStreamingResponse) error {
	var mu sync.Mutex
	return func(r *nomadpb.ExecTaskStreamingResponse) error {
		mu.Lock()
		defer mu.Unlock()
		return stream.Send(r)
	}
}

// receive hands on what the caller types until the stream ends.
func receive(stream nomadpb.Driver_ExecTaskStreamingServer, stdin *io.PipeWriter, sizes chan driver.Size) {
	defer close(sizes)
	defer stdin.Close()
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		if size := m.GetTtySize(); size != nil {
			select { // only the newest size counts
			case <-sizes:
			default:
			}
			sizes <- driver.Size{Rows: uint16(size.GetHeight()), Columns: uint16(size.GetWidth())}
		}
		if in := m.GetStdin(); in != nil {
			if len(in.GetData()) > 0 {
				// A command that reads no more still has sizes and an end to get.
				_, _ = stdin.Write(in.GetData())
			}
			if in.GetClose() {
				stdin.Close()
			}
		}
	}
}

// output is a writer that sends each write as one message.
type output func(*nomadpb.ExecTaskStreamingIOOperation) error

func (o output) Write(p []byte) (int, error) {
	if err := o(&nomadpb.ExecTaskStreamingIOOperation{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}
