package host

import (
	"context"
	"io"
	"log/slog"
	"strconv"

	"github.com/hashicorp/go-hclog"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

func eventOf(e *nomadpb.DriverTaskEvent) Event {
	return Event{
		Task: TaskID(e.GetTaskId()), Name: e.GetTaskName(), Alloc: psg.AllocID(e.GetAllocId()),
		At: e.GetTimestamp().AsTime(), Message: e.GetMessage(),
	}
}

func exitOf(r *nomadpb.ExitResult) Exit {
	return Exit{Code: int(r.GetExitCode()), Signal: int(r.GetSignal()), OOM: r.GetOomKilled()}
}

func statusOf(r *nomadpb.InspectTaskResponse) Status {
	attributes := r.GetDriver().GetAttributes()
	s := Status{
		Running: r.GetTask().GetState() == nomadpb.TaskState_RUNNING, Gate: attributes["gate"], Attributes: attributes,
		Started: r.GetTask().GetStartedAt().AsTime(),
	}
	s.PID, _ = strconv.Atoi(attributes["pid"]) // absent without a process
	if result := r.GetTask().GetResult(); result != nil {
		exit := exitOf(result)
		s.Exit, s.Completed = &exit, r.GetTask().GetCompletedAt().AsTime()
	}
	return s
}

// pluginLog hands the lines of go-plugin and of the plugin itself to log.
func pluginLog(log *slog.Logger) hclog.Logger {
	if log == nil {
		return hclog.NewNullLogger()
	}
	out := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard, Level: hclog.Debug})
	out.RegisterSink(&sink{log: log})
	return out
}

type sink struct{ log *slog.Logger }

// Accept takes one line.
func (s *sink) Accept(name string, level hclog.Level, msg string, args ...any) {
	at := slog.LevelDebug
	switch level {
	case hclog.Info:
		at = slog.LevelInfo
	case hclog.Warn:
		at = slog.LevelWarn
	case hclog.Error:
		at = slog.LevelError
	}
	s.log.Log(context.Background(), at, msg, append([]any{"plugin", name}, args...)...)
}
