package placement

import (
	"strconv"

	"github.com/psgrid/psg"
)

// tally counts the instances of one workload by the values of the node
// attributes that its spreads, distinct_property constraints and failure-domain
// minimum look at. Most workloads have none.
type tally struct {
	counters []counter
}

// counter is one such attribute.
type counter struct {
	attribute reference
	domain    bool // the node's failure domain instead of the attribute
	jobWide   bool // instances of all groups count
	counts    map[string]int

	spread   *psg.Spread // set for a spread
	distinct string      // set for distinct_property: the constraint as written
	most     uint64      // distinct_property: instances allowed per value
	invalid  bool        // distinct_property whose count is no number
}

// newTally reads a workload's attributes to count by.
func newTally(w *psg.Workload) tally {
	var t tally
	for i := range w.Spreads {
		s := &w.Spreads[i]
		t.counters = append(t.counters, counter{attribute: parseReference(s.Attribute), spread: s})
	}
	for _, c := range w.Constraints {
		if c.Operator != psg.DistinctProperty {
			continue
		}
		k := counter{attribute: parseReference(c.Left), jobWide: c.Scope == psg.JobScope, distinct: constraintText(c), most: 1}
		if c.Left == "" {
			k.attribute = reference{kind: refUnknown}
		}
		if c.Right != "" {
			most, err := strconv.ParseUint(c.Right, 10, 64)
			k.most, k.invalid = most, err != nil
		}
		t.counters = append(t.counters, k)
	}
	if w.MinDomains > 1 {
		t.counters = append(t.counters, counter{domain: true})
	}
	for i := range t.counters {
		t.counters[i].counts = make(map[string]int)
	}
	return t
}

// setTally replaces a workload's tally, and what its job knows of it.
func (w *workload) setTally(t tally) {
	if len(w.tally.counters) > 0 {
		w.job.tallied--
	}
	if len(t.counters) > 0 {
		w.job.tallied++
	}
	w.tally = t
}

// value is what a node counts under.
func (k *counter) value(n *node) (string, bool) {
	if k.domain {
		return n.domain(), true
	}
	return k.attribute.on(&n.spec)
}

// count adds or removes one instance on a node; own says that it is one of the
// workload itself rather than of another group of its job.
func (t *tally) count(n *node, own bool, sign int) {
	for i := range t.counters {
		k := &t.counters[i]
		if !own && !k.jobWide {
			continue
		}
		if value, ok := k.value(n); ok {
			bump(k.counts, value, sign)
		}
	}
}
