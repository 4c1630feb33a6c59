package shim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// draft is job JSON that is changed in a few places and sent on: whatever this
// version of Nomad's API does not know of is kept as it came.
type draft struct {
	raw map[string]any
	job *api.Job // the same, typed
}

// newDraft reads the JSON of one job.
func newDraft(data []byte) (*draft, error) {
	d := &draft{job: new(api.Job)}
	if err := json.Unmarshal(data, d.job); err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&d.raw); err != nil {
		return nil, fmt.Errorf("read job: %w", err)
	}
	return d, nil
}

// set replaces the job by a changed form of it: of its constraints and of its
// groups' and tasks' fields that PSG changes, those that differ are written into
// the JSON. Groups and tasks must be the same, in the same order.
func (d *draft) set(changed *api.Job) error {
	e := editor{}
	e.put(d.raw, "Constraints", d.job.Constraints, changed.Constraints)
	for i, g := range changed.TaskGroups {
		before, raw := d.job.TaskGroups[i], e.element(d.raw, "TaskGroups", i)
		if before == g || raw == nil {
			continue
		}
		e.put(raw, "Constraints", before.Constraints, g.Constraints)
		e.put(raw, "Affinities", before.Affinities, g.Affinities)
		e.put(raw, "Spreads", before.Spreads, g.Spreads)
		e.put(raw, "Update", before.Update, g.Update)
		for j, task := range g.Tasks {
			was, raw := before.Tasks[j], e.element(raw, "Tasks", j)
			if was == task || raw == nil {
				continue
			}
			e.put(raw, "Constraints", was.Constraints, task.Constraints)
			e.put(raw, "LogConfig", was.LogConfig, task.LogConfig)
			e.put(raw, "Templates", was.Templates, task.Templates)
		}
	}
	if e.err != nil {
		return e.err
	}
	d.job = changed
	return nil
}

// editor writes into decoded JSON and remembers the first error.
type editor struct{ err error }

// put writes a field that has changed, under whatever case its key has.
func (e *editor) put(object map[string]any, name string, before, after any) {
	old, err := json.Marshal(before)
	e.keep(err)
	changed, err := json.Marshal(after)
	e.keep(err)
	if bytes.Equal(old, changed) {
		return
	}
	for key := range object {
		if strings.EqualFold(key, name) {
			delete(object, key)
		}
	}
	object[name] = json.RawMessage(changed)
}

func (e *editor) keep(err error) {
	if e.err == nil && err != nil {
		e.err = fmt.Errorf("write job: %w", err)
	}
}

// element is an object in a list of an object, nil where there is none.
func (e *editor) element(object map[string]any, name string, i int) map[string]any {
	for key, value := range object {
		if !strings.EqualFold(key, name) {
			continue
		}
		if list, ok := value.([]any); ok && i < len(list) {
			found, _ := list[i].(map[string]any)
			return found
		}
	}
	return nil
}
