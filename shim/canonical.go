package shim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// canonical returns the part of a job that workloads carry, with Nomad's
// defaults filled in. It shares nothing that it changes with the job it was
// made from, and leaves out what workloads do not carry: the walk that finds
// losses sees Nomad's defaults there.
func canonical(job *api.Job) *api.Job {
	c := &api.Job{
		Region: job.Region, Namespace: job.Namespace, ID: job.ID, Type: job.Type,
		Priority: job.Priority, Datacenters: job.Datacenters, NodePool: job.NodePool,
		Constraints: job.Constraints, Affinities: clones(job.Affinities), Spreads: clones(job.Spreads),
		Update: clone(job.Update), Migrate: clone(job.Migrate), Reschedule: clone(job.Reschedule),
		Periodic: clone(job.Periodic), ParameterizedJob: job.ParameterizedJob,
		Meta: job.Meta, ParentID: job.ParentID, Dispatched: job.Dispatched, JobModifyIndex: job.JobModifyIndex,
	}
	for _, g := range job.TaskGroups {
		c.TaskGroups = append(c.TaskGroups, carriedGroup(g))
	}
	emptyAsMissing(c)
	c.Canonicalize()
	if len(c.Datacenters) == 0 {
		c.Datacenters = []string{"*"}
	}
	if *c.NodePool == "" {
		c.NodePool = new(defaultPool)
	}
	return c
}

// defaultPool is the pool Nomad's server gives a job that names none.
const defaultPool = "default"

// emptyAsMissing treats an empty type or namespace as one not given, as
// Nomad's server does.
func emptyAsMissing(job *api.Job) {
	if job.Type != nil && *job.Type == "" {
		job.Type = nil
	}
	if job.Namespace != nil && *job.Namespace == "" {
		job.Namespace = nil
	}
}

func carriedGroup(g *api.TaskGroup) *api.TaskGroup {
	c := &api.TaskGroup{
		Name: g.Name, Count: g.Count, Meta: g.Meta, Networks: carriedNetworks(g.Networks), Volumes: carriedVolumes(g.Volumes),
		Constraints: g.Constraints, Affinities: clones(g.Affinities), Spreads: clones(g.Spreads),
		Disconnect: clone(g.Disconnect), ReschedulePolicy: clone(g.ReschedulePolicy),
		Update: clone(g.Update), Migrate: clone(g.Migrate),
	}
	if g.EphemeralDisk != nil {
		c.EphemeralDisk = &api.EphemeralDisk{SizeMB: g.EphemeralDisk.SizeMB}
	}
	if g.Count == nil && g.Scaling != nil {
		c.Scaling = &api.ScalingPolicy{Min: g.Scaling.Min} // the default of Count
	}
	for _, t := range g.Tasks {
		c.Tasks = append(c.Tasks, carriedTask(t))
	}
	return c
}

func carriedTask(t *api.Task) *api.Task {
	c := &api.Task{
		Name: t.Name, Driver: t.Driver, Lifecycle: t.Lifecycle, Meta: t.Meta, Resources: clone(t.Resources),
		Constraints: t.Constraints, Affinities: clones(t.Affinities),
	}
	if t.Driver == Driver {
		c.Config = t.Config
	}
	if c.Resources != nil {
		c.Resources.Networks = carriedNetworks(c.Resources.Networks)
		if c.Resources.NUMA != nil {
			c.Resources.NUMA = &api.NUMAResource{Affinity: c.Resources.NUMA.Affinity}
		}
		c.Resources.Devices = clones(c.Resources.Devices)
		for _, d := range c.Resources.Devices {
			d.Affinities = clones(d.Affinities)
		}
	}
	return c
}

func carriedNetworks(networks []*api.NetworkResource) []*api.NetworkResource {
	var out []*api.NetworkResource
	for _, n := range networks {
		c := &api.NetworkResource{MBits: n.MBits, ReservedPorts: n.ReservedPorts, DynamicPorts: slices.Clone(n.DynamicPorts)}
		for i := range c.DynamicPorts {
			c.DynamicPorts[i].Value = 0
		}
		out = append(out, c)
	}
	return out
}

func carriedVolumes(volumes map[string]*api.VolumeRequest) map[string]*api.VolumeRequest {
	out := make(map[string]*api.VolumeRequest, len(volumes))
	for key, v := range volumes {
		c := *v
		c.MountOptions = nil
		out[key] = &c
	}
	return out
}

func clone[T any](in *T) *T {
	if in == nil {
		return nil
	}
	out := *in
	return &out
}

func clones[T any](in []*T) []*T {
	out := slices.Clone(in)
	for i := range out {
		out[i] = clone(out[i])
	}
	return out
}

// nulls finds the elements of lists and maps that are null where Nomad has an
// object: no default stands for those. The paths are relative to the value.
func nulls(v reflect.Value) []string {
	var found []string
	below := func(step string, inner reflect.Value) {
		if inner.Kind() == reflect.Pointer && inner.IsNil() {
			found = append(found, step)
			return
		}
		for _, rest := range nulls(inner) {
			found = append(found, join(step, rest))
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		return nulls(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() != reflect.Pointer || !f.IsNil() {
				below(v.Type().Field(i).Name, f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if holds(v.Type().Elem()) {
				below(elem("", i), v.Index(i))
			}
		}
	case reflect.Map:
		if holds(v.Type().Elem()) {
			for _, key := range sortedKeys(v) {
				below(field("", key.String()), v.MapIndex(key))
			}
		}
	}
	return found
}

// holds reports whether values of a type can hold further lists and maps of
// objects.
func holds(t reflect.Type) bool {
	return t.Kind() == reflect.Pointer || t.Kind() == reflect.Struct
}

func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return keys
}
