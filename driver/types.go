package driver

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

// Placer asks the controllers for a place: one long poll of at most 30 s for an
// answer newer than the record after. An order is an answer, whatever its kind;
// an error says that there was none, unless it is psg.ErrUnknown, ErrInvalid or
// ErrBusy. Place returns when ctx is done. It is idempotent by Ask.ID. A Placer
// that is an io.Closer is closed when it is replaced or the driver closes.
type Placer interface {
	Place(ctx context.Context, ask psg.Ask, after uint64) (psg.Order, error)
}

// The errors that callers match.
var (
	ErrTaskNotFound  = errors.New("task not found for given id")
	ErrNotConfigured = errors.New("the driver has no config yet")
	ErrClosed        = errors.New("the driver is closing")
	ErrRefused       = errors.New("task refused") // another try can't help
	ErrNoProcess     = errors.New("the task has no process: it is a gate, or waits at one")
)

// Config is what the driver follows; it may change while tasks run.
type Config struct {
	Plugin  hclspec.Plugin
	CoreMHz float64 // speed of one core, for CPU statistics; 0 means not known
}

// Task is one task as the orchestrator hands it over.
type Task struct {
	ID       string // unique for each start
	Name     string
	Workload psg.WorkloadID
	Alloc    psg.AllocID
	Node     psg.NodeID
	NodeName string
	AllocDir string            // absolute directory of the allocation; its tasks' are below it
	Env      map[string]string // complete: nothing is inherited
	User     string            // empty means the driver's own
	Stdout   string            // FIFO that the orchestrator reads
	Stderr   string
	NetNS    string // network namespace to run in; empty means the host's
	Limits   executor.Limits
	Stanza   hclspec.Stanza
}

// Dir is the task's own directory.
func (t Task) Dir() string { return filepath.Join(t.AllocDir, t.Name) }

// check refuses a task that can't be run as it is told.
func (t Task) check() error {
	if t.ID == "" || t.Alloc == "" || t.Node == "" {
		return fmt.Errorf("task %q of allocation %q on node %q lacks an id: %w", t.ID, t.Alloc, t.Node, ErrRefused)
	}
	if !filepath.IsAbs(t.AllocDir) {
		return fmt.Errorf("allocation directory %q is not absolute: %w", t.AllocDir, ErrRefused)
	}
	if t.Name == "." || t.Name == ".." || filepath.Base(t.Name) != t.Name {
		return fmt.Errorf("task name %q names no directory: %w", t.Name, ErrRefused)
	}
	for _, limit := range []struct {
		name         string
		value, least int64
	}{
		{"cpu", t.Limits.CPUShares, 0},
		{"memory", t.Limits.MemoryMB, 0},
		{"memory_max", t.Limits.MemoryMaxMB, executor.NoMemoryLimit},
	} {
		if limit.value < limit.least || limit.value > psg.MaxQuantity {
			return fmt.Errorf("%s must be %d to %d, got %d: %w", limit.name, limit.least, int64(psg.MaxQuantity), limit.value, ErrRefused)
		}
	}
	if t.Stanza.Command == "" {
		return nil
	}
	if err := checkUser(t.User); err != nil {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return nil
}

func (t Task) label() string {
	if t.NodeName != "" {
		return t.NodeName
	}
	return string(t.Node)
}

// Event is something to tell the user about a task.
type Event struct {
	TaskID   string
	TaskName string
	Alloc    psg.AllocID
	At       time.Time
	Message  string
}

// Status is what is known of a task.
type Status struct {
	ID        string
	Name      string
	Started   time.Time
	Completed time.Time      // zero while the task runs or waits
	Exit      *executor.Exit // nil while it does
	PID       int            // 0 while there is no process
	Told      string         // last thing the user was told
}

// Usage is what a task uses, CPU as the share of one core since the last
// reading.
type Usage struct {
	executor.Usage
	UserPercent   float64 // 100 is one core
	SystemPercent float64
	MHz           float64
}
