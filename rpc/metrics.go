package rpc

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
)

// collector reads the controller when it is scraped, so that there is no
// second account of what it knows.
type collector struct {
	reader Reader
}

var (
	leadingDesc  = prometheus.NewDesc("psg_leading", "1 while this controller leads.", nil, nil)
	epochDesc    = prometheus.NewDesc("psg_epoch", "Epoch of the last leader.", nil, nil)
	sequenceDesc = prometheus.NewDesc("psg_ledger_sequence", "Position of the last committed record.", nil, nil)
	nodesDesc    = prometheus.NewDesc("psg_nodes", "Nodes known, by whether they are ready.", []string{"ready"}, nil)
	asksDesc     = prometheus.NewDesc("psg_asks", "Asks remembered, by state.", []string{"state"}, nil)
)

func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{leadingDesc, epochDesc, sequenceDesc, nodesDesc, asksDesc} {
		out <- desc
	}
}

func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	at := position(c.reader)
	leading := 0.0
	if at.Leading {
		leading = 1
	}
	gauge(leadingDesc, leading)
	gauge(epochDesc, float64(at.Epoch))
	gauge(sequenceDesc, float64(at.Sequence))

	ready := map[bool]int{}
	for _, node := range c.reader.Snapshot().Nodes {
		ready[node.Ready]++
	}
	gauge(nodesDesc, float64(ready[true]), "true")
	gauge(nodesDesc, float64(ready[false]), "false")

	states := map[psg.State]int{}
	for _, status := range c.reader.Asks() {
		states[status.State]++
	}
	for state, n := range states {
		gauge(asksDesc, float64(n), string(state))
	}
}
