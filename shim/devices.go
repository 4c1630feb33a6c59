package shim

import (
	"cmp"
	"errors"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

const (
	wholeCard  = 1000 // milli-GPU
	maxDevices = 1024 // of one ask
)

// devices reads the cards a task asks Nomad for: whole ones.
func (t *translator) devices(path string, task *api.Task) []psg.DeviceAsk {
	var asks []psg.DeviceAsk
	for i, d := range task.Resources.Devices {
		at := elem(path, i)
		t.require(d.Name != "", field(at, "Name"), "is empty: a device is named type, vendor/type or vendor/type/model")
		t.require(*d.Count <= maxDevices, field(at, "Count"), "%d is above %d", *d.Count, maxDevices)
		for j, c := range d.Constraints {
			op := operator(c.Operand)
			t.require(op != psg.DistinctHosts && op != psg.DistinctProperty, field(elem(field(at, "Constraints"), j), "Operand"), "operator %s is not for devices", op)
		}
		ask := psg.DeviceAsk{
			Name:        d.Name,
			Task:        task.Name,
			Count:       int(min(*d.Count, maxDevices)),
			MilliGPU:    wholeCard,
			Constraints: t.constraints(field(at, "Constraints"), d.Constraints, psg.TaskScope),
			Affinities:  t.affinities(field(at, "Affinities"), d.Affinities, psg.TaskScope),
		}
		if ask.Count > 0 {
			asks = append(asks, ask)
		}
	}
	return asks
}

// stanza reads the config of a psg task and lets it shape the workload. Several
// psg tasks of one group may each say a part, but never two different things.
func (t *translator) stanza(path string, task *api.Task, w *psg.Workload) {
	s, err := hclspec.DecodeStanza(task.Config)
	if err != nil {
		t.stanzaProblems(path, err)
		return
	}
	w.Tenant = psg.TenantID(t.agree(field(path, "tenant"), string(w.Tenant), w.ID.Namespace, s.Tenant))
	w.Tier = t.agree(field(path, "tier"), w.Tier, "", s.Tier)
	w.Kind = t.agree(field(path, "kind"), w.Kind, string(w.Type), s.Kind)
	for key, value := range s.Labels {
		t.agree(field(field(path, "labels"), key), w.Labels[key], "", value)
	}
	w.Labels = overlay(w.Labels, s.Labels)
	w.Preemptible = w.Preemptible || s.Preemptible
	t.require(w.Deadline == 0 || s.Deadline == 0 || w.Deadline == s.Deadline, field(path, "deadline"),
		"%v, but another psg task of the group says %v", s.Deadline, w.Deadline)
	w.Deadline = cmp.Or(w.Deadline, s.Deadline)
	if d := s.Disruption; d != nil {
		said := psg.Disruption{MaxUnavailable: int(d.MaxUnavailable), Order: psg.MoveOrder(d.Order)}
		t.require(w.Disruption == nil || *w.Disruption == said, field(path, "disruption"), "another psg task of the group says something else")
		w.Disruption = &said
	}
	if s.Gang {
		w.Gang = psg.GangID(w.ID.String())
	}
	if s.Probe != nil {
		probe := s.Probe.Noun()
		t.require(w.Probe == nil || *w.Probe == *probe, field(path, "probe"), "another psg task of the group declares another")
		w.Probe = probe
	}
	if s.GPU != nil {
		w.Devices = append(w.Devices, s.GPU.DeviceAsk(task.Name))
	}
}

func (t *translator) stanzaProblems(path string, err error) {
	var fields hclspec.Errors
	if !errors.As(err, &fields) {
		t.fail(path, "%v", err)
		return
	}
	for _, one := range fields {
		t.fail(join(path, one.Path), "%s", one.Problem)
	}
}

// agree merges what a psg task says into what was said before it: a default
// gives way, something else must be the same.
func (t *translator) agree(path, before, byDefault, said string) string {
	if said == "" || said == before {
		return before
	}
	t.require(before == byDefault, path, "%s, but another psg task of the group says %s", quote(said), quote(before))
	return said
}
