package hclspec

import (
	"strings"
	"time"

	"github.com/psgrid/psg"
)

// Probe is how each instance is asked whether it is well, by its node's agent.
type Probe struct {
	Port      string        // label of a port of the group, or a number on the node's loopback
	Path      string        // of an HTTP GET; empty means a TCP connection
	Interval  time.Duration // between two
	Objective time.Duration // slower than this, the instance suffers
}

// The bounds of a probe: what an agent can do without disturbing its node.
const (
	minProbeInterval = 50 * time.Millisecond
	maxProbeTime     = time.Minute
)

func (p *Probe) fields() []Field {
	return []Field{
		StringField("port", &p.Port, "Label of a port of the group, or a number on the node's loopback.").mandatory(),
		StringField("path", &p.Path, "Path of an HTTP GET, such as `/health`; a TCP connection when not given."),
		DurationField("interval", &p.Interval, "Time between two.").or("200ms"),
		DurationField("objective", &p.Objective, "Time that an answer may take; slower ones mean that the instance suffers.").mandatory(),
	}
}

func (p *Probe) check(c *checker) {
	c.require(p.Port != "", "probe.port", "must not be empty")
	c.require(p.Path == "" || strings.HasPrefix(p.Path, "/"), "probe.path", "must begin with a slash, got %q", p.Path)
	c.require(minProbeInterval <= p.Interval && p.Interval <= maxProbeTime, "probe.interval", "must be %v to %v, got %v", minProbeInterval, maxProbeTime, p.Interval)
	c.require(0 < p.Objective && p.Objective <= maxProbeTime, "probe.objective", "must be more than 0 and at most %v, got %v", maxProbeTime, p.Objective)
}

// Noun is the probe as the ledger keeps it.
func (p Probe) Noun() *psg.Probe {
	return &psg.Probe{Port: p.Port, Path: p.Path, Interval: p.Interval, Objective: p.Objective}
}
