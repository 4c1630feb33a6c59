package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/shim"
)

// showInstances prints where the instances of a job stand, and why.
func showInstances(w io.Writer, asks []psg.AskStatus, verbose bool) error {
	p := &printer{w: w}
	if len(asks) > 0 {
		p.line("Instance\tGroup\tState\tNode\tBecause")
	}
	for i := range asks {
		s := &asks[i]
		p.line("%s\t%s\t%s\t%s\t%s", shortened(string(s.Ask.ID), verbose), s.Ask.Workload.Group, s.State, shortened(string(nodeOf(s)), verbose), because(s))
	}
	return p.err
}

// because is the reason of where an ask stands, in the words that its gate shows
// in Nomad's task events.
func because(s *psg.AskStatus) string {
	if s.Refusal != nil {
		return s.Refusal.Summary
	}
	return s.Reason
}

func nodeOf(s *psg.AskStatus) psg.NodeID {
	if s.Placement != nil {
		return s.Placement.Node
	}
	return s.Ask.Node
}

// showFailures prints what Nomad could not place, and why.
func showFailures(p *printer, failed map[string]*api.AllocationMetric) {
	for _, group := range sortedKeys(failed) {
		metric := failed[group]
		reason, text := shim.Obstacle(metric)
		p.line("- Task group %q: %d cannot be placed now (%s): %s", group, metric.CoalescedFailures+1, reason, text)
	}
}

// tally is "3 running, 1 queued".
func tally(states map[psg.State]int) string {
	var parts []string
	for _, state := range sortedKeys(states) {
		parts = append(parts, fmt.Sprintf("%d %s", states[state], state))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// explainBlocked writes what Nomad's blocked evaluations wait for, or why that is
// not known.
func explainBlocked(w io.Writer, blocked []psg.Blockage, unknown error) error {
	p := &printer{w: w}
	if unknown != nil {
		p.line("blocked in Nomad\tnot known: %v", unknown)
	}
	for _, b := range blocked {
		p.line("blocked in Nomad\t%s\t%s: %s", b.Group, b.Reason, b.Text)
	}
	return p.err
}
