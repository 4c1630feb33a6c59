package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
)

// steering shows what steering and moves have cost, and what Nomad's blocked
// evaluations wait for, when it is scraped. It implements prometheus.Collector.
type steering struct {
	figures func() controller.SteerFigures
	blocked func() map[psg.BlockReason]int
	shunned func(time.Time) map[psg.NodeID]time.Time
}

func steeringOf(decider *controller.Controller) steering {
	return steering{decider.Figures, decider.Blocked, decider.Shunned}
}

var (
	versionsDesc = prometheus.NewDesc("psg_steer_versions_total", "Job versions that this controller has written.", nil, nil)
	stopsDesc    = prometheus.NewDesc("psg_steer_stops_total", "Allocations that it has stopped for others to start elsewhere.", nil, nil)
	movesDesc    = prometheus.NewDesc("psg_moves_total", "Moves that have ended, by how.", []string{"outcome"}, nil)
	gapDesc      = prometheus.NewDesc("psg_move_gap_seconds_total", "Time in which neither of the two instances of a move ran, over all that ended well.", nil, nil)
	blockedDesc  = prometheus.NewDesc("psg_blocked_groups", "Groups that Nomad could not place, by what its blocked evaluations wait for.", []string{"reason"}, nil)
	shunnedDesc  = prometheus.NewDesc("psg_shunned_nodes", "Nodes on which nothing is planned, because Nomad did not start there what was steered to them.", nil, nil)
)

// Describe names the metrics.
func (s steering) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{versionsDesc, stopsDesc, movesDesc, gapDesc, blockedDesc, shunnedDesc} {
		out <- desc
	}
}

// Collect reads them.
func (s steering) Collect(out chan<- prometheus.Metric) {
	tell := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	f := s.figures()
	tell(versionsDesc, prometheus.CounterValue, float64(f.Versions))
	tell(stopsDesc, prometheus.CounterValue, float64(f.Stops))
	tell(movesDesc, prometheus.CounterValue, float64(f.Moves), "moved")
	tell(movesDesc, prometheus.CounterValue, float64(f.GivenUp), "given_up")
	tell(gapDesc, prometheus.CounterValue, f.Gap.Seconds())
	blocked := s.blocked()
	if blocked == nil {
		return // a standby knows neither this nor the next
	}
	for _, reason := range []psg.BlockReason{
		psg.BlockedByHold, psg.BlockedByResources, psg.BlockedByConstraint, psg.BlockedByQuota,
		psg.BlockedNoNodes, psg.BlockedByRejection, psg.BlockedOtherwise,
	} {
		tell(blockedDesc, prometheus.GaugeValue, float64(blocked[reason]), string(reason))
	}
	tell(shunnedDesc, prometheus.GaugeValue, float64(len(s.shunned(time.Now()))))
}
