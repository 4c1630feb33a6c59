package hclspec

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/psgrid/psg"
)

type aggregateBlock struct {
	Name       string    `hcl:"name,label"`
	NameRange  hcl.Range `hcl:"name,label_range"`
	Range      hcl.Range `hcl:",def_range"`
	Match      cty.Value `hcl:"match"`
	MatchRange hcl.Range `hcl:"match,attr_value_range"`
}

func (d *bundleDecoder) aggregate(block aggregateBlock) Aggregate {
	d.once("aggregate", block.Name, block.Range)
	if !identifierSyntax.MatchString(block.Name) {
		d.errs.add(block.NameRange, "aggregate name %q: Rego reads it as input.node.agg.NAME, so letters, digits and _ only", block.Name)
	}
	aggregate := Aggregate{Name: block.Name, Pos: position(block.Range)}
	aggregate.Match.Text = map[MatchField]string{}
	entries := d.entries(block.Match, block.MatchRange, "match")
	for _, name := range sortedNames(entries) {
		d.matchEntry(&aggregate.Match, name, entries[name], block.MatchRange)
	}
	return aggregate
}

func (d *bundleDecoder) matchEntry(match *Match, name string, value cty.Value, at hcl.Range) {
	switch {
	case name == "labels":
		match.Labels = map[string]string{}
		labels := d.entries(value, at, "match.labels")
		for _, label := range sortedNames(labels) {
			match.Labels[label] = d.text(labels[label], at, "match.labels."+label)
		}
	case name == "preemptible":
		if value.IsNull() || value.Type() != cty.Bool {
			d.errs.add(at, "match.preemptible must be true or false")
			return
		}
		preemptible := value.True()
		match.Preemptible = &preemptible
	case slices.Contains(matchFields(), MatchField(name)):
		match.Text[MatchField(name)] = d.text(value, at, "match."+name)
	default:
		known := append(names(matchFields(), func(f MatchField) string { return string(f) }), "labels", "preemptible")
		d.errs.add(at, "match has no %q; it knows %s%s", name, strings.Join(known, ", "), DidYouMean(name, known))
	}
}

// entries are those of an object or map.
func (d *bundleDecoder) entries(value cty.Value, at hcl.Range, what string) map[string]cty.Value {
	if t := value.Type(); value.IsNull() || !value.IsKnown() || !t.IsObjectType() && !t.IsMapType() {
		d.errs.add(at, "%s must be an object such as { name = value }", what)
		return nil
	}
	return value.AsValueMap()
}

func (d *bundleDecoder) text(value cty.Value, at hcl.Range, what string) string {
	if value.IsNull() || value.Type() != cty.String {
		d.errs.add(at, "%s must be a string", what)
		return ""
	}
	return value.AsString()
}

type tenantBlock struct {
	Name           string           `hcl:"name,label"`
	NameRange      hcl.Range        `hcl:"name,label_range"`
	Range          hcl.Range        `hcl:",def_range"`
	Weight         *int             `hcl:"weight,optional"`
	WeightRange    hcl.Range        `hcl:"weight,attr_value_range"`
	Guarantee      map[string]int64 `hcl:"guarantee,optional"`
	GuaranteeRange hcl.Range        `hcl:"guarantee,attr_value_range"`
}

// guaranteeNames are what a guarantee may name: each dimension, milli_gpu, and
// their short forms.
func guaranteeNames() map[string]string {
	known := map[string]string{
		"milli_gpu": "milli_gpu", "gpu": "milli_gpu", "cpu": "cpu_mhz", "memory": "memory_mb",
		"memory_max": "memory_max_mb", "disk": "disk_mb", "network": "network_mbits",
	}
	for dimension := range psg.Dimensions {
		name := psg.Dimension(dimension).String()
		known[name] = name
	}
	return known
}

func (d *bundleDecoder) tenant(block tenantBlock) psg.Tenant {
	d.once("tenant", block.Name, block.Range)
	if block.Name == "" {
		d.errs.add(block.NameRange, "a tenant needs a name")
	}
	tenant := psg.Tenant{ID: psg.TenantID(block.Name), Weight: 1, Guarantee: map[string]int64{}}
	if block.Weight != nil {
		tenant.Weight = *block.Weight
		if tenant.Weight < 1 || tenant.Weight > 1_000_000 {
			d.errs.add(block.WeightRange, "tenant %q: weight %d is outside 1..1000000", block.Name, tenant.Weight)
		}
	}
	known := guaranteeNames()
	for _, name := range sortedNames(block.Guarantee) {
		amount := block.Guarantee[name]
		full, ok := known[name]
		_, twice := tenant.Guarantee[full]
		switch {
		case !ok:
			d.errs.add(block.GuaranteeRange, "tenant %q: guarantee of unknown resource %q%s", block.Name, name, DidYouMean(name, sortedNames(known)))
		case twice:
			d.errs.add(block.GuaranteeRange, "tenant %q: %s is guaranteed twice, under its short and its full name", block.Name, full)
		case amount < 0 || amount > psg.MaxQuantity:
			d.errs.add(block.GuaranteeRange, "tenant %q: guarantee %s = %d is outside 0..%d", block.Name, name, amount, int64(psg.MaxQuantity))
		default:
			tenant.Guarantee[full] = amount
		}
	}
	return tenant
}

func sortedNames[T any](m map[string]T) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

type dataBlock struct {
	Kind      string    `hcl:"kind,label"`
	KindRange hcl.Range `hcl:"kind,label_range"`
	Name      string    `hcl:"name,label"`
	NameRange hcl.Range `hcl:"name,label_range"`
	Range     hcl.Range `hcl:",def_range"`

	Address         string    `hcl:"address,optional"`
	AddressRange    hcl.Range `hcl:"address,attr_value_range"`
	URL             string    `hcl:"url,optional"`
	URLRange        hcl.Range `hcl:"url,attr_value_range"`
	Query           string    `hcl:"query,optional"`
	QueryRange      hcl.Range `hcl:"query,attr_value_range"`
	Key             string    `hcl:"key,optional"`
	KeyRange        hcl.Range `hcl:"key,attr_value_range"`
	Window          string    `hcl:"range,optional"`
	WindowRange     hcl.Range `hcl:"range,attr_value_range"`
	Step            string    `hcl:"step,optional"`
	StepRange       hcl.Range `hcl:"step,attr_value_range"`
	Interval        string    `hcl:"interval"`
	IntervalRange   hcl.Range `hcl:"interval,attr_value_range"`
	Timeout         string    `hcl:"timeout,optional"`
	TimeoutRange    hcl.Range `hcl:"timeout,attr_value_range"`
	StaleAfter      string    `hcl:"stale_after,optional"`
	StaleAfterRange hcl.Range `hcl:"stale_after,attr_value_range"`
	OnStale         string    `hcl:"on_stale,optional"`
	OnStaleRange    hcl.Range `hcl:"on_stale,attr_value_range"`
}

// ReservedData are the names under data that PSG gives policies itself.
func ReservedData() []string { return []string{"cluster", "params"} }

func (d *bundleDecoder) source(block dataBlock) Source {
	// Whatever their kind, all sources live side by side under data.
	d.once("data", block.Name, block.Range)
	if !identifierSyntax.MatchString(block.Name) || slices.Contains(ReservedData(), block.Name) {
		d.errs.add(block.NameRange, "data name %q: Rego reads it as data.NAME, so letters, digits and _ only, and neither of %q", block.Name, ReservedData())
	}
	kind := oneOf(d, block.KindRange, "kind of data", block.Kind, "prometheus", "http")
	source := Source{Kind: kind, Name: block.Name, Query: block.Query, Key: block.Key, Pos: position(block.Range)}
	address := block.given()
	if kind == "prometheus" {
		source.URL = d.url(block, "address", block.Address, block.AddressRange)
		d.require(block, "query", block.Query, block.QueryRange)
		d.require(block, "key", block.Key, block.KeyRange)
		d.refuse(block, address, "url")
	} else {
		source.URL = d.url(block, "url", block.URL, block.URLRange)
		d.refuse(block, address, "address", "query", "key", "range", "step")
	}
	d.timing(&source, block)
	source.OnStale = oneOf(d, block.OnStaleRange, "on_stale", OnStale(block.OnStale), StaleDeny, StaleIgnore, StaleKeep)
	return source
}

// given maps each argument that only one kind has to where it stands.
func (b dataBlock) given() map[string]hcl.Range {
	return map[string]hcl.Range{
		"address": b.AddressRange, "url": b.URLRange, "query": b.QueryRange,
		"key": b.KeyRange, "range": b.WindowRange, "step": b.StepRange,
	}
}

func (d *bundleDecoder) refuse(block dataBlock, given map[string]hcl.Range, arguments ...string) {
	for _, argument := range arguments {
		if at := given[argument]; at.Filename != "" {
			d.errs.add(at, "data %q %q: %s sources have no %s", block.Kind, block.Name, block.Kind, argument)
		}
	}
}

func (d *bundleDecoder) require(block dataBlock, argument, value string, at hcl.Range) {
	if at.Filename == "" {
		d.errs.add(block.Range, "data %q %q: %s is missing", block.Kind, block.Name, argument)
	} else if value == "" {
		d.errs.add(at, "data %q %q: %s is empty", block.Kind, block.Name, argument)
	}
}

func (d *bundleDecoder) url(block dataBlock, argument, value string, at hcl.Range) string {
	if at.Filename == "" {
		d.require(block, argument, value, at)
		return ""
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		d.errs.add(at, "data %q %q: %s %q is not an http or https URL", block.Kind, block.Name, argument, value)
	} else if argument == "address" && (parsed.RawQuery != "" || parsed.Fragment != "") { // which paths are appended to
		d.errs.add(at, "data %q %q: address must end with its path, and have no query", block.Kind, block.Name)
	}
	return value
}

// timing reads the durations. Defaults: timeout 5s or the interval if that is
// shorter, stale_after three intervals.
func (d *bundleDecoder) timing(source *Source, block dataBlock) {
	source.Interval = d.duration(block.Interval, block.IntervalRange, "interval", 0)
	source.Timeout = d.duration(block.Timeout, block.TimeoutRange, "timeout", min(5*time.Second, source.Interval))
	source.StaleAfter = d.duration(block.StaleAfter, block.StaleAfterRange, "stale_after", 3*source.Interval)
	source.Range = d.duration(block.Window, block.WindowRange, "range", 0)
	source.Step = d.duration(block.Step, block.StepRange, "step", 0)
	if source.Timeout > source.Interval {
		d.errs.add(block.TimeoutRange, "timeout %s is longer than the interval %s", source.Timeout, source.Interval)
	}
	if source.StaleAfter < source.Interval {
		d.errs.add(block.StaleAfterRange, "stale_after %s is shorter than the interval %s", source.StaleAfter, source.Interval)
	}
	if (block.WindowRange.Filename == "") != (block.StepRange.Filename == "") {
		d.errs.add(block.Range, "data %q %q: a range query needs both range and step", block.Kind, block.Name)
	}
}

func (d *bundleDecoder) duration(text string, at hcl.Range, argument string, fallback time.Duration) time.Duration {
	if at.Filename == "" {
		return fallback
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < time.Second || value > 24*time.Hour {
		d.errs.add(at, `%s %q is not a duration between "1s" and "24h"`, argument, text)
		return fallback
	}
	return value
}
