// Package gpu measures NVIDIA cards through their management library, NVML,
// which is loaded when the agent runs: a node without it has no cards to measure.
// It is a source of package agent, and decides nothing. cmd/psg-agent makes it.
//
// A program that was built without cgo cannot load the library; the source then
// says so.
package gpu

import "time"

// Config says where things are. Zero values mean the defaults.
type Config struct {
	Library string        // of NVML; default "libnvidia-ml.so.1", as the loader finds it
	Proc    string        // the proc file system, in which processes' allocations are looked up; default "/proc"
	Every   time.Duration // between measurements; default 1 s
}

func (c Config) withDefaults() Config {
	if c.Proc == "" {
		c.Proc = "/proc"
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
}

// Name is "nvml".
func (s *Source) Name() string { return "nvml" }

// Every is the time between measurements.
func (s *Source) Every() time.Duration { return s.config.Every }
