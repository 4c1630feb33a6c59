package agent

import "time"

// The bounds of self-throttling. Apart, and only after several collections on
// end, so that the agent does not flap around one value.
const (
	degradeAbove = 95.0 // CPU percent
	degradeAfter = 5    // collections
	recoverBelow = 85.0 // CPU percent
	recoverAfter = 3    // collections
)

// pacer decides how often to collect: less often while the node has no CPU to
// spare.
type pacer struct {
	normal, slow time.Duration
	degraded     bool
	streak       int // collections on end that speak for changing degraded
}

// observe takes the latest CPU use, in percent, and reports whether it changed
// degraded.
func (p *pacer) observe(busy float64) (changed bool) {
	enough := degradeAfter
	speaks := busy > degradeAbove
	if p.degraded {
		enough, speaks = recoverAfter, busy < recoverBelow
	}
	if !speaks {
		p.streak = 0
		return false
	}
	if p.streak++; p.streak < enough {
		return false
	}
	p.degraded, p.streak = !p.degraded, 0
	return true
}

// interval is the time until the next collection.
func (p *pacer) interval() time.Duration {
	if p.degraded {
		return p.slow
	}
	return p.normal
}
