// Package gpu measures NVIDIA cards through their management library, NVML,
// which is loaded when the agent runs: a node without it has no cards to measure.
// It is a source of package agent, and decides nothing. cmd/psg-agent makes it.
//
// A program that was built without cgo cannot load the library; the source then
// says so.
package gpu

import (
	"maps"
	"slices"
	"time"

	"github.com/psgrid/psg"
)

// Config says where things are. Zero values mean the defaults.
type Config struct {
	Library string        // of NVML; default "libnvidia-ml.so.1", as the loader finds it
	Proc    string        // the proc file system, in which processes' allocations are looked up; default "/proc"
	Sys     string        // the sys file system, which tells where cards stand; default "/sys"
	Every   time.Duration // between measurements; default 1 s
}

func (c Config) withDefaults() Config {
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	if c.Sys == "" {
		c.Sys = "/sys"
	}
	if c.Every == 0 {
		c.Every = time.Second
	}
	return c
}

// Source is the cards of one node, as an agent.Source. It is for one goroutine.
// A call of the library cannot be interrupted: a driver that hangs keeps Measure
// from returning.
type Source struct {
	config Config
	driver driver
	found  inventory
}

// inventory is what the last measurement found.
type inventory struct {
	devices []psg.Device // by ID
	known   bool
}

// Devices are the cards that can be handed out, or that could while they are well:
// each instance of a card that is cut, as MIG does, in place of the card. It
// implements agent.Finder.
func (s *Source) Devices() (devices []psg.Device, known bool) {
	return slices.Clone(s.found.devices), s.found.known
}

// lose is what a failed measurement leaves: the cards that were there, none of
// them well, as nobody can use them now.
func (i *inventory) lose(why string) {
	for n := range i.devices {
		i.devices[n] = unwell(i.devices[n], why)
	}
	i.known = true
}

// unwell is a device that cannot be used, with the reason among its attributes.
func unwell(d psg.Device, why string) psg.Device {
	d.Healthy = false
	d.Attributes = maps.Clone(d.Attributes)
	d.Attributes["health"] = why
	return d
}

// Name is "nvml".
func (s *Source) Name() string { return "nvml" }

// Every is the time between measurements.
func (s *Source) Every() time.Duration { return s.config.Every }
