package main

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg/bus"
)

// anchorEvery is the shortest time between two log lines with the head of the
// audit chain.
const anchorEvery = time.Minute

// anchor tells the head of the audit chain to the log and to whoever scrapes
// metrics, so that it is noted where the bus's operator cannot reach.
type anchor struct {
	log *slog.Logger

	mu     sync.Mutex
	head   bus.AuditHead
	logged time.Time
}

var (
	auditHeadDesc     = prometheus.NewDesc("psg_audit_head", "Position of the head of the audit chain, with its hash.", []string{"hash"}, nil)
	auditSequenceDesc = prometheus.NewDesc("psg_audit_ledger_sequence", "Ledger record that the head of the audit chain tells of.", nil, nil)
)

func (a *anchor) note(head bus.AuditHead) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.head = head
	if now := time.Now(); head.Position > 0 && now.Sub(a.logged) >= anchorEvery {
		a.logged = now
		a.log.Info("audit head", "anchor", fmt.Sprintf("%d:%x", head.Position, head.Hash), "record", head.Sequence)
	}
}

// Describe implements prometheus.Collector.
func (a *anchor) Describe(out chan<- *prometheus.Desc) {
	out <- auditHeadDesc
	out <- auditSequenceDesc
}

// Collect implements prometheus.Collector. A standby has nothing to tell.
func (a *anchor) Collect(out chan<- prometheus.Metric) {
	a.mu.Lock()
	head := a.head
	a.mu.Unlock()
	if head.Position == 0 {
		return
	}
	out <- prometheus.MustNewConstMetric(auditHeadDesc, prometheus.GaugeValue, float64(head.Position), hex.EncodeToString(head.Hash[:]))
	out <- prometheus.MustNewConstMetric(auditSequenceDesc, prometheus.GaugeValue, float64(head.Sequence))
}
