package executor

import (
	"time"
)

// Spec is the command to run. It reaches the executor through a pipe and is
// never written to disk, since environments hold secrets.
type Spec struct {
	Path   string   `json:"path"` // absolute
	Args   []string `json:"args"` // without the program's name
	Env    []string `json:"env"`  // KEY=value; nothing is inherited
	Dir    string   `json:"dir"`
	User   *User    `json:"user,omitempty"` // nil means the executor's own
	Stdout string   `json:"stdout"`         // FIFO or file; empty means discard
	Stderr string   `json:"stderr"`
	// Within is a directory that others may write to: Stdout and Stderr below it
	// are not followed out of it. Empty means that the paths are trusted.
	Within string `json:"within,omitempty"`
	NetNS  string `json:"netns,omitempty"` // path of the network namespace to run in
	Limits Limits `json:"limits"`
}

// User is whom a command runs as.
type User struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups"`
}

// Limits is what a command may use. Zero means no limit.
type Limits struct {
	CPUShares   int64  `json:"cpu_shares"` // MHz, used as the weight among siblings
	MemoryMB    int64  `json:"memory_mb"`
	MemoryMaxMB int64  `json:"memory_max_mb"` // hard limit when above MemoryMB; NoMemoryLimit means none
	CPUs        string `json:"cpus"`          // reserved cores, as cpuset writes them: "0,2-3"
	// Group is the control group that the orchestrator made for the command:
	// the unified one, or the cpuset one where hierarchies are separate.
	Group string `json:"group,omitempty"`
	// Parent and Name make the group's path below each hierarchy where the
	// orchestrator made none.
	Parent string `json:"parent"`
	Name   string `json:"name"`
}

// NoMemoryLimit as MemoryMaxMB leaves MemoryMB a reservation only.
const NoMemoryLimit = -1

// Started says that a command runs, or, without a PID, that it was about to.
type Started struct {
	PID   int       `json:"pid"`   // also its process group and session
	Ticks uint64    `json:"ticks"` // start time in clock ticks since boot, so that a reused pid is told apart
	Boot  string    `json:"boot"`  // kernel's boot ID
	At    time.Time `json:"at"`
	// Groups are the directories of the control groups that hold the command
	// and nothing else, at most one per hierarchy.
	Groups []string `json:"groups,omitempty"`
	// Made are those of them that the executor made and removes at the end.
	Made []string `json:"made,omitempty"`
	// Unapplied lists the limits that could not be set, and why.
	Unapplied []string `json:"unapplied,omitempty"`
}

// Exit says how a command ended.
type Exit struct {
	Code   int       `json:"code"` // 128 + Signal when a signal ended it
	Signal int       `json:"signal,omitempty"`
	OOM    bool      `json:"oom,omitempty"`   // the kernel killed part of it for memory
	Error  string    `json:"error,omitempty"` // set when how it ended is not known
	At     time.Time `json:"at"`
}

// started is the executor's answer to whoever started it.
type started struct {
	Started
	Error string `json:"error,omitempty"` // the command did not start
	Taken bool   `json:"taken,omitempty"` // since another executor has the directory
}
