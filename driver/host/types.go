package host

import (
	"errors"
	"log/slog"
	"time"

	"github.com/psgrid/psg"
)

// Config is what a host is made of.
type Config struct {
	Binary   string         // the plugin
	Dir      string         // where allocation directories are made; absolute
	Plugin   map[string]any // the plugin's config, as HCL or JSON gives it
	Node     psg.NodeID
	NodeName string
	// OnEvent is called with each event in order, from one goroutine; nil drops
	// them. It must not call the host.
	OnEvent func(Event)
	Log     *slog.Logger // the host's and the plugin's lines; nil drops them
}

func (c Config) validate() error {
	switch {
	case c.Binary == "":
		return errors.New("host: no plugin binary")
	case c.Dir == "":
		return errors.New("host: no directory")
	case c.Node == "":
		return errors.New("host: no node id")
	}
	return nil
}

// Event is something that the driver tells the user about a task.
type Event struct {
	Task    TaskID
	Name    string
	Alloc   psg.AllocID
	At      time.Time
	Message string
}

// TaskID identifies one start of one task.
type TaskID string

// Task is one task to start.
type Task struct {
	Alloc     psg.AllocID
	Workload  psg.WorkloadID
	Name      string
	Config    map[string]any    // the task's config, as HCL or JSON gives it
	Env       map[string]string // beyond what a task always gets
	User      string
	Resources psg.Resources // CPU, Memory and MemoryMax are used
}

// Alloc is one allocation: its gates are passed first, then its tasks start.
type Alloc struct {
	ID       psg.AllocID
	Workload psg.WorkloadID
	Gates    []Task // prestart tasks; their Alloc and Workload are filled in
	Tasks    []Task // main tasks, likewise
}

// Exit says how a task ended.
type Exit struct {
	Code   int // 128 + Signal when a signal ended it
	Signal int
	OOM    bool
	Error  string // set when the task could not run, or its end is not known
}

// OK reports whether the task succeeded.
func (e Exit) OK() bool { return e.Code == 0 && e.Signal == 0 && e.Error == "" }

// Status is what the driver knows of a task.
type Status struct {
	Running    bool
	PID        int    // 0 without a process
	Gate       string // last thing that the gate said
	Started    time.Time
	Completed  time.Time
	Exit       *Exit
	Attributes map[string]string
}

// Usage is what a task uses.
type Usage struct {
	CPUPercent float64 // 100 is one core
	RSS        uint64  // bytes
	Memory     uint64  // bytes, with cache, where it is known
}

// Info is what the plugin says of itself.
type Info struct {
	Name    string
	Version string
	Healthy bool
	Health  string // for people
	PID     int    // of the plugin process
}
