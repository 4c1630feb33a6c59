package shim

import (
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/nomad/api"
)

// Loss is one thing a job says that its workloads do not carry. Nomad still
// acts on it; PSG neither sees nor changes it.
type Loss struct {
	Path   string `json:"path"`   // JSON path within the input
	Detail string `json:"detail"` // what it is, and who acts on it
}

// carriedPaths are the fields of a job that workloads carry, wholly. What is
// neither here nor on the way to one of these is reported as lost, so that a
// field which a later Nomad adds shows up rather than vanishes.
const carriedPaths = `
Region Namespace ID Type Priority Datacenters NodePool Meta ParentID Dispatched JobModifyIndex
Constraints Affinities
Spreads Update Migrate Reschedule
Periodic ParameterizedJob
TaskGroups.Name TaskGroups.Count TaskGroups.Meta
TaskGroups.Constraints TaskGroups.Affinities TaskGroups.Spreads
TaskGroups.Update TaskGroups.Migrate TaskGroups.ReschedulePolicy TaskGroups.Disconnect
TaskGroups.EphemeralDisk.SizeMB
TaskGroups.Networks.MBits TaskGroups.Networks.ReservedPorts
TaskGroups.Networks.DynamicPorts.Label TaskGroups.Networks.DynamicPorts.To
TaskGroups.Networks.DynamicPorts.HostNetwork TaskGroups.Networks.DynamicPorts.IgnoreCollision
TaskGroups.Volumes.Name TaskGroups.Volumes.Type TaskGroups.Volumes.Source TaskGroups.Volumes.ReadOnly
TaskGroups.Volumes.Sticky TaskGroups.Volumes.AccessMode TaskGroups.Volumes.AttachmentMode TaskGroups.Volumes.PerAlloc
TaskGroups.Tasks.Name TaskGroups.Tasks.Driver TaskGroups.Tasks.Lifecycle TaskGroups.Tasks.Meta
TaskGroups.Tasks.Constraints TaskGroups.Tasks.Affinities
TaskGroups.Tasks.Resources.CPU TaskGroups.Tasks.Resources.Cores
TaskGroups.Tasks.Resources.MemoryMB TaskGroups.Tasks.Resources.MemoryMaxMB TaskGroups.Tasks.Resources.SecretsMB
TaskGroups.Tasks.Resources.DiskMB TaskGroups.Tasks.Resources.IOPS
TaskGroups.Tasks.Resources.Devices TaskGroups.Tasks.Resources.NUMA.Affinity
TaskGroups.Tasks.Resources.Networks.MBits TaskGroups.Tasks.Resources.Networks.ReservedPorts
TaskGroups.Tasks.Resources.Networks.DynamicPorts.Label TaskGroups.Tasks.Resources.Networks.DynamicPorts.To
TaskGroups.Tasks.Resources.Networks.DynamicPorts.HostNetwork TaskGroups.Tasks.Resources.Networks.DynamicPorts.IgnoreCollision
`

// lossDetails says what the fields are that jobs lose most often, one a line.
// The longest path that a field's own path begins with is the one that counts.
const lossDetails = `
AllAtOnce: Nomad's scheduler reads it
Multiregion: Nomad's servers register the job in each region
UI: shown by Nomad's web page
Payload: handed to the task by Nomad
Submission: kept by Nomad's server
Status: set by Nomad's server
StatusDescription: set by Nomad's server
Stable: set by Nomad's server
Stop: set by Nomad's server
Version: set by Nomad's server
VersionTag: set by Nomad's server
SubmitTime: set by Nomad's server
CreateIndex: set by Nomad's server
ModifyIndex: set by Nomad's server
TaskGroups.Services: registered by Nomad; a Connect sidecar it adds is not counted
TaskGroups.Networks.Mode: which nodes can provide it is Nomad's check
TaskGroups.RestartPolicy: restarts in place are the Nomad client's
TaskGroups.Scaling: read by the autoscaler
TaskGroups.EphemeralDisk: kept or moved by the Nomad client
TaskGroups.StopAfterClientDisconnect: Nomad ignores it; use disconnect
TaskGroups.MaxClientDisconnect: Nomad ignores it; use disconnect
TaskGroups.PreventRescheduleOnLost: Nomad ignores it; use disconnect
TaskGroups.Tasks.Config: configuration of the task's driver
TaskGroups.Tasks.Services: registered by Nomad; a Connect sidecar it adds is not counted
TaskGroups.Tasks.RestartPolicy: restarts in place are the Nomad client's
TaskGroups.Tasks.Resources.Networks.Mode: which nodes can provide it is Nomad's check
TaskGroups.Tasks.Resources.NUMA.Devices: which cards share the task's NUMA node is Nomad's choice
`

const defaultDetail = "acted on by Nomad only"

// lossTable is carriedPaths and lossDetails, ready for look-up.
type lossTable struct {
	carried map[string]bool
	onWay   map[string]bool // paths that lead to a carried one
	details map[string]string
}

var losable = sync.OnceValue(func() lossTable {
	t := lossTable{map[string]bool{}, map[string]bool{"": true}, map[string]string{}}
	for path := range strings.FieldsSeq(carriedPaths) {
		t.carried[path] = true
		for i, r := range path {
			if r == '.' {
				t.onWay[path[:i]] = true
			}
		}
	}
	for line := range strings.Lines(lossDetails) {
		if path, detail, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			t.details[path] = detail
		}
	}
	return t
})

func (t lossTable) detail(pattern string) string {
	for ; pattern != ""; pattern = pattern[:max(0, strings.LastIndexByte(pattern, '.'))] {
		if detail, ok := t.details[pattern]; ok {
			return detail
		}
	}
	return defaultDetail
}

// lossWalk compares what a job says with what its canonical form, made of
// carried fields alone, says there.
type lossWalk struct {
	table  lossTable
	losses []Loss
}

// jobLosses lists what the job says beyond its carried part and Nomad's
// defaults, in the order of Nomad's fields.
func jobLosses(root string, job, canon *api.Job) []Loss {
	w := lossWalk{table: losable()}
	w.value(root, "", reflect.ValueOf(job), reflect.ValueOf(canon))
	return w.losses
}

// value visits what was said at a path; def is what Nomad takes when nothing is,
// and is not valid where it takes nothing. A pattern is a path without indices
// and map keys.
func (w *lossWalk) value(path, pattern string, said, def reflect.Value) {
	if w.table.carried[pattern] || empty(said) {
		return
	}
	said, def = target(said), target(def)
	descend := w.table.onWay[pattern] || said.Kind() == reflect.Struct && def.IsValid()
	switch {
	case descend && said.Kind() == reflect.Struct:
		w.fields(path, pattern, said, def)
	case said.Kind() == reflect.Slice && holds(said.Type().Elem()):
		for i := range said.Len() {
			var inner reflect.Value
			if def.IsValid() && i < def.Len() {
				inner = def.Index(i)
			}
			w.value(elem(path, i), pattern, said.Index(i), inner)
		}
	case descend && said.Kind() == reflect.Map:
		for _, key := range sortedKeys(said) {
			var inner reflect.Value
			if def.IsValid() {
				inner = def.MapIndex(key)
			}
			w.value(field(path, key.String()), pattern, said.MapIndex(key), inner)
		}
	case def.IsValid() && reflect.DeepEqual(said.Interface(), def.Interface()):
	default:
		w.losses = append(w.losses, Loss{path, w.table.detail(pattern)})
	}
}

func (w *lossWalk) fields(path, pattern string, said, def reflect.Value) {
	psgTask := said.Type() == reflect.TypeFor[api.Task]() && said.FieldByName("Driver").String() == Driver
	for i := range said.NumField() {
		name, ok := jsonName(said.Type().Field(i))
		if psgTask && name == "Config" { // the stanza, which hclspec reads whole
			if empty(said.Field(i)) {
				w.losses = append(w.losses, Loss{field(path, name), "is empty: Nomad starts no task of a plugin without any config; give it an argument, such as kind"})
			}
			continue
		}
		if !ok || empty(said.Field(i)) {
			continue
		}
		var inner reflect.Value
		if def.IsValid() {
			inner = def.Field(i)
		}
		w.value(field(path, name), strings.TrimPrefix(pattern+"."+name, "."), said.Field(i), inner)
	}
}

// empty reports whether a value says nothing. An object says something even
// when it is empty: vault {} gives the task a token.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	case reflect.Pointer:
		return v.IsNil() || v.Elem().Kind() != reflect.Struct && empty(v.Elem())
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

// target is what a pointer leads to, not valid for nil.
func target(v reflect.Value) reflect.Value {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	return v
}
