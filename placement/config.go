package placement

import (
	"fmt"

	"github.com/psgrid/psg"
)

// Bounds on what one workload or node may bring. Beyond them it is refused with
// that reason, so that no input can stall a cycle.
const (
	maxConstraints = 256  // constraints, affinities and spreads of one workload, its device asks included
	maxPattern     = 4096 // bytes of one regular expression
	maxCards       = 64   // devices of one node that are used
	maxDeviceAsks  = 16   // device asks of one workload
	maxPorts       = 1024 // port asks of one workload
	maxSearch      = 1024 // steps of the search for a set of cards on one node
)

// Config is what an engine weighs and limits. The zero value means the
// defaults.
type Config struct {
	Weights Weights
	// Limits bound instances by label, across jobs.
	Limits []psg.Limit
	// IndexMB bounds the memory, in MiB, in which classes of workloads keep
	// their candidates ordered; a class beyond it looks at every node. 0 means
	// 512.
	IndexMB int
}

// Weights say how many milli-points each kind of preference is worth at its
// full strength. Policy's points come on top as the policies give them. The
// defaults keep an order: affinities and spreads outweigh load and headroom, these
// and one point of policy are in the range of a card lost to fragmentation, and
// packing only decides among nodes without cards that all else leaves equal: it is
// never worth a move, a step of fragmentation just so is.
type Weights struct {
	Affinity      int64 // all affinities met; 0 means 10000
	Spread        int64 // one spread's whole share missing; 0 means 10000
	SoftLimit     int64 // each instance beyond a soft limit; 0 means 10000
	Move          int64 // what a move must gain; 0 means 40
	NUMA          int64 // devices on one NUMA node where that is preferred; 0 means 2000
	Load          int64 // a node fully busier than its requests say; 0 means 2000
	Headroom      int64 // a node that lacks its whole memory for what its instances may burst to; 0 means 2000
	Fragmentation int64 // one whole card made useless to others; 0 means 1000
	Packing       int64 // a node without cards filled to the brim; 0 means 30
}

// withDefaults fills what is zero.
func (c Config) withDefaults() Config {
	if c.IndexMB == 0 {
		c.IndexMB = 512
	}
	w := &c.Weights
	for _, d := range []struct {
		weight *int64
		value  int64
	}{
		{&w.Affinity, 10_000}, {&w.Spread, 10_000}, {&w.SoftLimit, 10_000}, {&w.NUMA, 2000}, {&w.Move, 40},
		{&w.Load, 2000}, {&w.Headroom, 2000}, {&w.Fragmentation, 1000}, {&w.Packing, 30},
	} {
		if *d.weight == 0 {
			*d.weight = d.value
		}
	}
	return c
}

// Validate reports the first setting that makes no sense.
func (c Config) Validate() error {
	const most = 1_000_000
	for name, w := range map[string]int64{
		"affinity": c.Weights.Affinity, "spread": c.Weights.Spread, "soft_limit": c.Weights.SoftLimit,
		"move": c.Weights.Move, "numa": c.Weights.NUMA, "load": c.Weights.Load, "headroom": c.Weights.Headroom,
		"fragmentation": c.Weights.Fragmentation, "packing": c.Weights.Packing,
	} {
		if w < 0 || w > most {
			return fmt.Errorf("placement weight %s: %d is outside 0..%d", name, w, most)
		}
	}
	if c.IndexMB < 0 {
		return fmt.Errorf("placement index_mb: %d is below 0", c.IndexMB)
	}
	for i, l := range c.Limits {
		if err := l.Validate(); err != nil {
			return fmt.Errorf("placement limit %d, %q: %w", i, l.Name, err)
		}
	}
	return nil
}
