package psg

import "time"

// Type is how the orchestrator runs a workload.
type Type string

// The types, named as Nomad names them.
const (
	Service  Type = "service"  // Count instances, kept running
	Batch    Type = "batch"    // Count instances, each run to completion
	System   Type = "system"   // one instance on every node that qualifies
	SysBatch Type = "sysbatch" // one instance on every node that qualifies, run to completion
)

// EveryNode reports whether the type runs once per qualifying node, so that
// Count says nothing.
func (t Type) EveryNode() bool { return t == System || t == SysBatch }

// Workload is what is to be placed: one task group of a job, Count times. All
// its instances are alike. It is a value: once handed over it is not changed.
type Workload struct {
	ID      WorkloadID `json:"id"`
	Version uint64     `json:"version"` // rises with each change; Nomad's JobModifyIndex; 0 for what is yet to be registered
	Region  string     `json:"region,omitempty"`
	Type    Type       `json:"type"`
	Count   int        `json:"count"` // instances wanted; 0 asks for nothing

	// What policy, fairness and queue order read.
	Priority    int               `json:"priority"` // higher goes first; Nomad's 1..32767
	Tenant      TenantID          `json:"tenant"`   // the namespace unless the psg stanza says otherwise
	Tier        string            `json:"tier,omitempty"`
	Kind        string            `json:"kind"` // "inference", "training", …; the type unless the psg stanza says otherwise
	Labels      map[string]string `json:"labels,omitempty"`
	Meta        map[string]string `json:"meta,omitempty"` // job, overlaid by group
	Preemptible bool              `json:"preemptible"`
	Deadline    time.Duration     `json:"deadline_ns,omitempty"` // wanted time from submission to grant; 0 means none
	Gang        GangID            `json:"gang,omitempty"`
	Probe       *Probe            `json:"probe,omitempty"` // how an instance is asked whether it is well; nil: not at all
	Held        bool              `json:"held,omitempty"`  // registered under the hold constraint, waiting for a plan

	// What one instance needs.
	Request Resources   `json:"request"` // the peak over the instance's life
	Devices []DeviceAsk `json:"devices,omitempty"`
	Ports   []PortAsk   `json:"ports,omitempty"`
	Volumes []VolumeAsk `json:"volumes,omitempty"`
	NUMA    string      `json:"numa,omitempty"` // "none", "prefer" or "require"
	Tasks   []Task      `json:"tasks"`

	// Where it may go.
	Datacenters []string     `json:"datacenters,omitempty"` // globs; none means any
	NodePool    string       `json:"node_pool,omitempty"`   // "all" or empty means any
	Constraints []Constraint `json:"constraints,omitempty"`
	Affinities  []Affinity   `json:"affinities,omitempty"`
	Spreads     []Spread     `json:"spreads,omitempty"`
	MinDomains  int          `json:"min_domains,omitempty"` // failure domains the Count instances must reach; 0 means any

	// How it may be replaced and moved.
	Update     *Update     `json:"update,omitempty"`
	Migrate    *Migrate    `json:"migrate,omitempty"`
	Reschedule *Reschedule `json:"reschedule,omitempty"`
	Disconnect *Disconnect `json:"disconnect,omitempty"`
	Disruption *Disruption `json:"disruption,omitempty"` // nil means as Migrate says
	Shifting   bool        `json:"shifting,omitempty"`   // registered with a Shift

	// When it runs.
	Periodic      *Periodic      `json:"periodic,omitempty"`
	Parameterized *Parameterized `json:"parameterized,omitempty"`
	Parent        string         `json:"parent,omitempty"` // job that this one was dispatched or launched from
}

// Task is one process of an instance.
type Task struct {
	Name      string            `json:"name"`
	Driver    string            `json:"driver"`
	Lifecycle Lifecycle         `json:"lifecycle"`
	Request   Resources         `json:"request"`
	Meta      map[string]string `json:"meta,omitempty"` // job, overlaid by group, overlaid by task
}

// Lifecycle is when a task runs within its instance.
type Lifecycle string

// The lifecycles, as Nomad's hook and sidecar give them.
const (
	Main             Lifecycle = "main"
	Prestart         Lifecycle = "prestart"          // ends before main starts
	PrestartSidecar  Lifecycle = "prestart-sidecar"  // starts before main, runs beside it
	Poststart        Lifecycle = "poststart"         // runs beside main
	PoststartSidecar Lifecycle = "poststart-sidecar" // runs beside main
	Poststop         Lifecycle = "poststop"          // starts when main has ended
)

// DeviceAsk is one device request of an instance: Count devices, all matching.
type DeviceAsk struct {
	Name  string `json:"name"` // "gpu", "nvidia/gpu" or "nvidia/gpu/A100": type, vendor/type or vendor/type/model
	Task  string `json:"task,omitempty"`
	Count int    `json:"count"`
	// MilliGPU is the share of each device: 1000 is a whole one, held alone.
	MilliGPU int64 `json:"milli_gpu"`
	// MemoryMB is device memory wanted on each device, in MiB; 0 asks for none
	// beyond the share. A device asked for by memory alone (MilliGPU 0) is shared.
	MemoryMB    int64        `json:"memory_mb,omitempty"`
	Profile     string       `json:"profile,omitempty"` // MIG profile, such as "1g.10gb"
	Linked      bool         `json:"linked,omitempty"`  // all devices on one link island (NVLink)
	Constraints []Constraint `json:"constraints,omitempty"`
	Affinities  []Affinity   `json:"affinities,omitempty"`
}

// PortAsk is one port an instance needs on its node.
type PortAsk struct {
	Label           string `json:"label"`
	Static          int    `json:"static,omitempty"` // the port; 0 means any free dynamic one
	To              int    `json:"to,omitempty"`     // port inside the network namespace
	HostNetwork     string `json:"host_network,omitempty"`
	IgnoreCollision bool   `json:"ignore_collision,omitempty"`
}

// VolumeAsk is one volume an instance needs on its node.
type VolumeAsk struct {
	Name       string `json:"name"`
	Type       string `json:"type"`   // "host" or "csi"
	Source     string `json:"source"` // volume ID
	ReadOnly   bool   `json:"read_only,omitempty"`
	PerAlloc   bool   `json:"per_alloc,omitempty"` // source gets the instance's index appended
	Sticky     bool   `json:"sticky,omitempty"`
	AccessMode string `json:"access_mode,omitempty"`
	Attachment string `json:"attachment_mode,omitempty"`
}

// Update is how a new version rolls out.
type Update struct {
	MaxParallel      int           `json:"max_parallel"`
	Canary           int           `json:"canary"`
	HealthCheck      string        `json:"health_check,omitempty"`
	MinHealthy       time.Duration `json:"min_healthy_ns"`
	HealthyDeadline  time.Duration `json:"healthy_deadline_ns"`
	ProgressDeadline time.Duration `json:"progress_deadline_ns"`
	Stagger          time.Duration `json:"stagger_ns,omitempty"`
	AutoRevert       bool          `json:"auto_revert"`
	AutoPromote      bool          `json:"auto_promote"`
}

// Migrate bounds how fast instances may leave a draining node.
type Migrate struct {
	MaxParallel     int           `json:"max_parallel"`
	HealthCheck     string        `json:"health_check,omitempty"`
	MinHealthy      time.Duration `json:"min_healthy_ns"`
	HealthyDeadline time.Duration `json:"healthy_deadline_ns"`
}

// Reschedule is how often a failed instance is placed anew.
type Reschedule struct {
	Attempts  int           `json:"attempts"`
	Interval  time.Duration `json:"interval_ns"`
	Delay     time.Duration `json:"delay_ns"`
	DelayFunc string        `json:"delay_function,omitempty"` // "constant", "exponential" or "fibonacci"
	MaxDelay  time.Duration `json:"max_delay_ns"`
	Unlimited bool          `json:"unlimited"`
}

// Disconnect is what happens when an instance's node goes silent.
type Disconnect struct {
	LostAfter time.Duration `json:"lost_after_ns"`
	StopAfter time.Duration `json:"stop_after_ns"`
	Replace   bool          `json:"replace"`
	Reconcile string        `json:"reconcile,omitempty"`
}

// Disruption bounds what PSG may do to running instances when it moves them.
type Disruption struct {
	MaxUnavailable int       `json:"max_unavailable"` // instances that may be down at once; 0 means none
	Order          MoveOrder `json:"order,omitempty"`
}

// MoveOrder is which of the two instances of a move gives way.
type MoveOrder string

// The orders. Empty means StartFirst for what allows it, else StopFirst.
const (
	StartFirst MoveOrder = "start_first"
	StopFirst  MoveOrder = "stop_first"
)

// Periodic is a cron schedule that launches children.
type Periodic struct {
	Enabled         bool     `json:"enabled"`
	Specs           []string `json:"specs"` // cron expressions
	TimeZone        string   `json:"time_zone,omitempty"`
	ProhibitOverlap bool     `json:"prohibit_overlap"`
}

// Parameterized marks a job that runs only when dispatched.
type Parameterized struct {
	Payload      string   `json:"payload,omitempty"` // "optional", "required" or "forbidden"
	MetaRequired []string `json:"meta_required,omitempty"`
	MetaOptional []string `json:"meta_optional,omitempty"`
}
