// Package hand is the agent's hand on its node: it holds control groups back,
// and lets them go again, on version 1 and on version 2.
//
// It knows neither orders nor allocations, and keeps nothing: a plan says what
// each file held before, and whoever carries it out keeps that for as long as it
// lasts. Called by package agent.
package hand

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Groups are the directories of one task's control groups; all the same on
// version 2, and empty where it has none of its own.
type Groups struct {
	Unified bool // version 2
	CPU     string
	Memory  string
	IO      string // blkio of version 1
	Freezer string
}

// Limit is a ceiling. What is zero is not limited.
type Limit struct {
	Cores    float64 // of CPU: 0.5 is half a core
	MemoryMB int64   // above it, its own page cache goes first
	ReadBps  int64   // bytes a second, on each device
	WriteBps int64
	ReadOps  int64 // operations a second, on each device
	WriteOps int64
	Frozen   bool
}

// Write is one change of one file: of the whole of it, or of one device's line.
type Write struct {
	File   string `json:"file"`
	Device string `json:"device,omitempty"` // "254:0"
	Was    string `json:"was"`
	Now    string `json:"now"`
}

// Hand plans for one node. It is a value without state.
type Hand struct {
	Devices []string // block devices whose I/O is limited: "254:0"
}

// ErrNoGroup says that a task has no control group of its own for what is to be
// limited.
var ErrNoGroup = errors.New("no control group of its own")

// Plan says what to write so that a task stays below a limit. It only ever
// tightens: what is tighter already is left. It changes nothing.
func (h Hand) Plan(g Groups, l Limit) ([]Write, error) {
	p := planner{groups: g, devices: h.Devices}
	if l.Frozen { // first: what stands still does not fill its memory while a limit is set
		p.plan("freezer", g.Freezer, p.freezer)
	}
	if l.Cores > 0 {
		p.plan("CPU", g.CPU, func() error { return p.cpu(l.Cores) })
	}
	if l.ReadBps > 0 || l.WriteBps > 0 || l.ReadOps > 0 || l.WriteOps > 0 {
		p.plan("I/O", g.IO, func() error { return p.io(l) })
	}
	if l.MemoryMB > 0 { // last: what is held back already fills it again less quickly
		p.plan("memory", g.Memory, func() error { return p.memory(l.MemoryMB) })
	}
	if p.err != nil {
		return nil, p.err
	}
	return p.writes, nil
}

// How often a limit is written that the kernel cannot reclaim down to at once,
// because the group goes on filling itself: each try reclaims some more, and what
// is being read or written meanwhile has to end first.
const (
	busyTries = 40
	busyPause = 5 * time.Millisecond
)

// ErrBusy says that the kernel could not make room for a limit of memory.
var ErrBusy error = syscall.EBUSY

// Do makes one change. It takes 200 ms at most where the kernel is busy, and fails
// with ErrBusy then.
func Do(w Write) error {
	for try := 1; ; try++ {
		err := put(w, w.Now)
		if !errors.Is(err, ErrBusy) || try == busyTries {
			return err
		}
		time.Sleep(busyPause)
	}
}

// Undo takes one change back. Where the group is gone, or the file holds neither
// what was there nor what was written, somebody else has seen to it since, and it
// is left; a group that is frozen is thawed all the same, if it was not before.
func Undo(w Write) error {
	now, err := get(w.File, w.line())
	switch {
	case gone(err):
		return nil
	case err != nil:
		return err
	case now == w.Was, now != w.Now && !isFreezer(w.File):
		return nil
	}
	if err := put(w, w.Was); !gone(err) {
		return err
	}
	return nil
}

// oomControl is read by its lines and written as one number.
const oomControl = "memory.oom_control"

// line is which line of its file a write is about; empty means the whole.
func (w Write) line() string {
	if filepath.Base(w.File) == oomControl {
		return "oom_kill_disable"
	}
	return w.Device
}

func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

func isFreezer(file string) bool {
	return slices.Contains([]string{"freezer.state", "cgroup.freeze"}, filepath.Base(file))
}

// Freezes reports whether a write stops the processes of a group.
func (w Write) Freezes() bool { return isFreezer(w.File) }

// planner collects the writes of one plan, and its first error.
type planner struct {
	groups  Groups
	devices []string
	writes  []Write
	err     error
}

func (p *planner) plan(what, dir string, how func() error) {
	if p.err != nil {
		return
	}
	if dir == "" {
		p.err = fmt.Errorf("limit %s: %w", what, ErrNoGroup)
		return
	}
	if err := how(); err != nil {
		p.err = fmt.Errorf("limit %s: %w", what, err)
	}
}

func (p *planner) add(w Write) {
	if w.Was != w.Now {
		p.writes = append(p.writes, w)
	}
}

// unlimited is a ceiling that limits nothing.
const unlimited = math.MaxInt64

// get reads a file, or its line for one device or key; one without a line reads
// as empty.
func get(file, device string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if device == "" {
		return strings.TrimSpace(string(data)), nil
	}
	for line := range strings.Lines(string(data)) {
		if of, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && of == device {
			return value, nil
		}
	}
	return "", nil
}

// put writes a value with one system call: the kernel takes each as a whole.
func put(w Write, value string) error {
	if w.Device != "" {
		if value == "" {
			value = "0" // of version 1, whose unlimited devices have no line
		}
		value = w.Device + " " + value
	}
	file, err := os.OpenFile(w.File, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
