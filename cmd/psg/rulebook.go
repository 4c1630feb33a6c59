package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/policies"
)

// rulebook gives the controller whatever policies are in force, and knows which
// those are: what lies in their directory by now may be others.
type rulebook struct {
	store *policies.Store
	dir   string
}

func newRulebook(dir string, config policies.Config) (*rulebook, error) {
	store, err := policies.NewStore(dir, config)
	if err != nil {
		return nil, err
	}
	return &rulebook{store: store, dir: dir}, nil
}

// inForce is what each cycle decides by.
func (r *rulebook) inForce() controller.Policy { return r.store.Current() }

// reload puts what is in the directory in force; a faulty bundle changes nothing.
func (r *rulebook) reload() error { return r.store.Reload(r.dir) }

// bundle is the version in force.
func (r *rulebook) bundle() psg.Bundle {
	set := r.store.Current()
	return psg.Bundle{Name: set.Bundle().Name, Version: set.Bundle().Version, Digest: set.Digest()}
}

// report has the policies in force recorded, if they are others than before. The
// leader's are what counts.
func (r *rulebook) report(ctx context.Context, decider *controller.Controller) error {
	return decider.Report(ctx, []psg.Delta{psg.BundleChanged{Bundle: r.bundle(), At: time.Now()}})
}

// replace makes a change of what is in force, and has everything decided by it
// that waits.
func (r *rulebook) replace(ctx context.Context, change func() error, decider *controller.Controller, log *slog.Logger) error {
	before := r.bundle()
	if err := change(); err != nil {
		log.Error("policies not replaced: the old ones stay in force", "bundle", before.Name, "version", before.Version, "error", err)
		return err
	}
	now := r.bundle()
	log.Info("policies replaced", "bundle", now.Name, "version", now.Version, "digest", now.Digest, "before", before.Digest)
	decider.Wake()
	if _, _, leading := decider.Position(); !leading {
		return nil // whoever leads says what its policies are
	}
	if err := r.report(ctx, decider); err != nil {
		log.Error("policy change not recorded", "error", err)
	}
	return nil
}

// reloading loads the bundle anew at each signal.
func reloading(ctx context.Context, reload <-chan os.Signal, rules *rulebook, log *slog.Logger, decider *controller.Controller) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			// That it failed is logged, and the old ones stay in force.
			_ = rules.replace(ctx, rules.reload, decider, log)
		}
	}
}

var (
	policyBundleDesc  = prometheus.NewDesc("psg_policy_bundle", "1, with the policy bundle in force.", []string{"bundle", "version", "digest"}, nil)
	policyTierDesc    = prometheus.NewDesc("psg_policy_tier", "Tier that a policy is evaluated in: 2 by columns, 1 by closures, 0 by OPA.", []string{"policy"}, nil)
	quarantinedDesc   = prometheus.NewDesc("psg_policy_quarantined", "1 if a policy was put down a tier because it differed from OPA.", []string{"policy"}, nil)
	policyPairsDesc   = prometheus.NewDesc("psg_policy_pairs_total", "Pairs of workload and node decided by a faster tier than OPA, since the bundle was loaded.", nil, nil)
	policyCheckedDesc = prometheus.NewDesc("psg_policy_checked_total", "Of those, compared with OPA.", nil, nil)
	policyDeferDesc   = prometheus.NewDesc("psg_policy_deferred_total", "Pairs that kept their verdict for a cycle though a measurement differed, for want of budget.", nil, nil)
	policyDifferDesc  = prometheus.NewDesc("psg_policy_differences_total", "Of those, with another answer.", nil, nil)
)

// Describe implements prometheus.Collector.
func (r *rulebook) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{policyBundleDesc, policyTierDesc, quarantinedDesc, policyPairsDesc, policyCheckedDesc, policyDifferDesc, policyDeferDesc} {
		out <- desc
	}
}

// Collect implements prometheus.Collector.
func (r *rulebook) Collect(out chan<- prometheus.Metric) {
	put := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
	bundle := r.bundle()
	put(policyBundleDesc, prometheus.GaugeValue, 1, bundle.Name, bundle.Version, bundle.Digest)
	status := r.store.Current().Status()
	for _, p := range status.Policies {
		put(policyTierDesc, prometheus.GaugeValue, float64(p.Tier), p.Name)
		quarantined := 0.0
		if p.Quarantined {
			quarantined = 1
		}
		put(quarantinedDesc, prometheus.GaugeValue, quarantined, p.Name)
	}
	put(policyPairsDesc, prometheus.CounterValue, float64(status.Pairs))
	put(policyCheckedDesc, prometheus.CounterValue, float64(status.Checked))
	put(policyDifferDesc, prometheus.CounterValue, float64(status.Differ))
	put(policyDeferDesc, prometheus.CounterValue, float64(status.Deferred))
}
