package shim

import (
	"testing"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

func TestBlockages_TellReasonsApart(t *testing.T) {
	group := func(m api.AllocationMetric) *api.Evaluation {
		return &api.Evaluation{Status: "blocked", JobID: "j", FailedTGAllocs: map[string]*api.AllocationMetric{"g": &m}}
	}
	for name, one := range map[string]struct {
		evaluation *api.Evaluation
		want       psg.BlockReason
		text       string
	}{
		"room": {group(api.AllocationMetric{NodesEvaluated: 3, NodesExhausted: 2, NodesFiltered: 1, DimensionExhausted: map[string]int{"cpu": 1, "memory": 2}}),
			psg.BlockedByResources, "2 nodes: memory, 1 nodes: cpu"},
		"constraint": {group(api.AllocationMetric{NodesEvaluated: 3, NodesFiltered: 3, ConstraintFiltered: map[string]int{"${attr.os.name} = beos": 3}}),
			psg.BlockedByConstraint, "3 nodes: ${attr.os.name} = beos"},
		"hold": {group(api.AllocationMetric{NodesEvaluated: 3, NodesFiltered: 3, ConstraintFiltered: map[string]int{"${meta.psg_hold} = never": 1, "computed class ineligible": 2}}),
			psg.BlockedByHold, "held by PSG until all of it has room"},
		"quota in a group": {group(api.AllocationMetric{NodesEvaluated: 1, QuotaExhausted: []string{"cpu exhausted"}}), psg.BlockedByQuota, "quota limits reached: cpu exhausted"},
		"quota":            {&api.Evaluation{Status: "blocked", QuotaLimitReached: "team"}, psg.BlockedByQuota, `quota "team" is used up`},
		"no nodes":         {group(api.AllocationMetric{}), psg.BlockedNoNodes, "no ready node in its datacenters and pool"},
		"plan rejections":  {&api.Evaluation{Status: "blocked", TriggeredBy: "max-plan-attempts", StatusDescription: "created due to placement conflicts"}, psg.BlockedByRejection, "created due to placement conflicts"},
		"nothing said":     {&api.Evaluation{Status: "blocked"}, psg.BlockedOtherwise, "Nomad does not say"},
	} {
		got := Blockages([]*api.Evaluation{{Status: "complete"}, one.evaluation})
		if len(got) != 1 || got[0].Reason != one.want || got[0].Text != one.text {
			t.Errorf("%s: %+v, want %s: %s", name, got, one.want, one.text)
		}
	}
}
