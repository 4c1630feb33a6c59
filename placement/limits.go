package placement

import (
	"reflect"

	"github.com/psgrid/psg"
)

// SetLimits replaces Config.Limits, which must be valid, as after another policy
// bundle came into force. It costs as much as telling a new engine everything,
// but nothing where they are the same.
func (e *Engine) SetLimits(limits []psg.Limit) {
	e.endTrial()
	if len(limits) == 0 && len(e.cfg.Limits) == 0 || reflect.DeepEqual(limits, e.cfg.Limits) {
		return
	}
	for _, h := range e.held {
		if h.node != nil {
			e.account(h, -1)
		}
	}
	e.cfg.Limits = limits
	e.limitTotals = make([]int, len(limits))
	for _, n := range e.nodes {
		n.limits = make([]int, len(limits))
		e.touch(n.slot)
	}
	for _, w := range e.workloads {
		e.release(w)
		w.limits = e.limitsOn(&w.spec)
	}
	for _, s := range e.shapes {
		e.dropShape(s) // they name limits by their place in the list
	}
	for _, h := range e.held {
		if h.node != nil {
			e.account(h, 1)
		}
	}
}

// limitsOn lists the limits that count a workload's instances.
func (e *Engine) limitsOn(w *psg.Workload) []int {
	var list []int
	for i := range e.cfg.Limits {
		if e.cfg.Limits[i].Covers(w.Labels) {
			list = append(list, i)
		}
	}
	return list
}
