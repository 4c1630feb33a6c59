package search

import (
	"fmt"
	"slices"
)

// Options say how to search.
type Options struct {
	Seed uint64
	// Near searches among the assignments that are near the initial one, where
	// moves cost more than what they can gain elsewhere; else it begins so hot that
	// the initial one is forgotten.
	Near bool
	// Steps bounds the number of steps; 0 means no bound.
	Steps int64
	// Used says which share of the time is used up: the search ends at 1. It
	// steers the temperature, as the share of Steps does; nil means no limit of
	// time. Steps or Used must be given.
	Used func() float64
}

// Result is the best assignment found.
type Result struct {
	Assignment []int
	Cost       Cost
	Steps      int64 // proposals judged
}

// Solve searches from the problem's initial assignment. The result breaks no
// rule and costs no more than the initial one.
func Solve(p Problem, o Options) (Result, error) {
	if o.Steps <= 0 && o.Used == nil {
		return Result{}, fmt.Errorf("search: neither steps nor time are bounded")
	}
	if err := p.Validate(); err != nil {
		return Result{}, fmt.Errorf("search: %w", err)
	}
	s := newSearcher(&p, o)
	s.anneal()
	s.restore(s.best, s.bestCost)
	s.descend()
	s.keep()
	at := make([]int, len(s.best))
	for i, node := range s.best {
		at[i] = int(node)
	}
	return Result{Assignment: at, Cost: p.Cost(at), Steps: s.steps}, nil
}

// searcher is the scratch of one Solve.
type searcher struct {
	*state
	o        Options
	random   *source
	best     []int32
	bestCost int64
	steps    int64
	made     []undo // of the ejection being tried
}

func newSearcher(p *Problem, o Options) *searcher {
	s := &searcher{state: newState(newModel(p)), o: o, random: newSource(o.Seed)}
	s.best, s.bestCost = slices.Clone(s.at), s.cost
	return s
}

// keep remembers the assignment if it is the best yet.
func (s *searcher) keep() {
	if s.cost < s.bestCost {
		s.bestCost = s.cost
		copy(s.best, s.at)
	}
}

// used is the share of the budget that is gone.
func (s *searcher) used() float64 {
	var share float64
	if s.o.Steps > 0 {
		share = float64(s.steps) / float64(s.o.Steps)
	}
	if s.o.Used != nil {
		share = max(share, s.o.Used())
	}
	return share
}
