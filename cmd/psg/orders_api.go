package main

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/rpc"
)

// maxOrder bounds one order by REST, in bytes.
const maxOrder = 64 << 10

// withOrders adds orders to nodes to the controller's REST face:
//
//	POST /v1/node/{id}/order     psg.Order -> psg.Report
//	GET /v1/node/{id}/reports    []psg.Report, the oldest first
func withOrders(rest http.Handler, agents *controller.Agents) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.Handle("POST /v1/node/{id}/order", jsonOnly(func(w http.ResponseWriter, r *http.Request) {
		var order psg.Order
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxOrder)).Decode(&order); err != nil {
			rpc.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
			return
		}
		order.Node = psg.NodeID(r.PathValue("id"))
		report, err := agents.Command(r.Context(), order)
		if err != nil {
			rpc.WriteError(w, err)
			return
		}
		rpc.WriteJSON(w, http.StatusOK, report)
	}))
	mux.HandleFunc("GET /v1/node/{id}/reports", func(w http.ResponseWriter, r *http.Request) {
		reports := agents.Reports(psg.NodeID(r.PathValue("id")))
		if reports == nil {
			reports = []psg.Report{}
		}
		rpc.WriteJSON(w, http.StatusOK, reports)
	})
	return mux
}

// reportMetrics counts what agents report when it is scraped.
type reportMetrics struct{ agents *controller.Agents }

var reportsDesc = prometheus.NewDesc("psg_agent_reports_total",
	"Reports of nodes' agents, by the order, how it ended, and whether the agent acted by itself.",
	[]string{"order", "state", "unasked"}, nil)

// Describe implements prometheus.Collector.
func (m reportMetrics) Describe(out chan<- *prometheus.Desc) { out <- reportsDesc }

// Collect implements prometheus.Collector.
func (m reportMetrics) Collect(out chan<- prometheus.Metric) {
	counts := m.agents.Counts()
	var kinds []controller.ReportCount
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b controller.ReportCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	for _, kind := range kinds {
		unasked := "false"
		if kind.Unasked {
			unasked = "true"
		}
		out <- prometheus.MustNewConstMetric(reportsDesc, prometheus.CounterValue, float64(counts[kind]), string(kind.Kind), string(kind.State), unasked)
	}
}
