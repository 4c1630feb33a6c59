package shim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// triggeredByRejections is how Nomad marks the evaluation that waits after its
// plans were rejected again and again.
const triggeredByRejections = "max-plan-attempts"

// Managed reports whether PSG places any group of a job.
func Managed(job *api.Job) bool { return gated(job) }

// Blocked lists what the blocked evaluations of all namespaces wait for.
func (e *Enactor) Blocked(ctx context.Context) ([]psg.Blockage, error) {
	asked := query(ctx, api.AllNamespacesNamespace)
	asked.Filter = `Status == "` + api.EvalStatusBlocked + `"`
	evaluations, _, err := e.client.Evaluations().List(asked)
	if err != nil {
		return nil, fmt.Errorf("list blocked evaluations: %w: %w", psg.ErrUnavailable, err)
	}
	return Blockages(evaluations), nil
}

// Blockages says what those evaluations wait for that are blocked, by job and
// group.
func Blockages(evaluations []*api.Evaluation) []psg.Blockage {
	out := []psg.Blockage{}
	for _, v := range evaluations {
		if v.Status != api.EvalStatusBlocked {
			continue
		}
		job := psg.JobID{Namespace: v.Namespace, Job: v.JobID}
		switch {
		case v.TriggeredBy == triggeredByRejections:
			out = append(out, psg.Blockage{Job: job, Reason: psg.BlockedByRejection, Text: cmp.Or(v.StatusDescription, "Nomad rejected its plans again and again")})
		case v.QuotaLimitReached != "":
			out = append(out, psg.Blockage{Job: job, Reason: psg.BlockedByQuota, Text: fmt.Sprintf("quota %q is used up", v.QuotaLimitReached)})
		case len(v.FailedTGAllocs) == 0:
			out = append(out, psg.Blockage{Job: job, Reason: psg.BlockedOtherwise, Text: cmp.Or(v.StatusDescription, "Nomad does not say")})
		}
		if v.TriggeredBy == triggeredByRejections || v.QuotaLimitReached != "" {
			continue
		}
		for _, group := range slices.Sorted(maps.Keys(v.FailedTGAllocs)) {
			reason, text := Obstacle(v.FailedTGAllocs[group])
			out = append(out, psg.Blockage{Job: job, Group: group, Reason: reason, Text: text})
		}
	}
	slices.SortStableFunc(out, func(a, b psg.Blockage) int {
		return cmp.Or(cmp.Compare(a.Job.Namespace, b.Job.Namespace), cmp.Compare(a.Job.Job, b.Job.Job), cmp.Compare(a.Group, b.Group))
	})
	return out
}

// Obstacle says what kept Nomad from placing an instance: the one thing that has
// to change first. PSG's hold goes before all else, for it is taken off when
// there is room.
func Obstacle(m *api.AllocationMetric) (psg.BlockReason, string) {
	switch {
	case m == nil:
		return psg.BlockedOtherwise, "Nomad does not say"
	case m.ConstraintFiltered[holdAttribute+" = "+holdValue] > 0:
		return psg.BlockedByHold, "held by PSG until all of it has room"
	case len(m.QuotaExhausted) > 0:
		return psg.BlockedByQuota, "quota limits reached: " + strings.Join(m.QuotaExhausted, ", ")
	case m.NodesExhausted > 0:
		return psg.BlockedByResources, counts("nodes", m.DimensionExhausted)
	case m.NodesFiltered > 0:
		all := maps.Clone(m.ConstraintFiltered)
		if all == nil {
			all = map[string]int{}
		}
		for class, n := range m.ClassFiltered {
			if class != "" {
				all["class "+class] = n
			}
		}
		return psg.BlockedByConstraint, counts("nodes", all)
	case m.NodesEvaluated == 0:
		return psg.BlockedNoNodes, "no ready node in its datacenters and pool"
	}
	return psg.BlockedOtherwise, "Nomad does not say"
}

// counts is "2 nodes: memory, 1 nodes: cpu", the most first.
func counts(noun string, by map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = fmt.Sprintf("%d %s: %s", by[key], noun, key)
	}
	return cmp.Or(strings.Join(parts, ", "), "Nomad does not say which")
}
