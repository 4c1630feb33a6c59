package shim

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/nomad/api"
)

// marks are what makes a job, or a part of it, PSG's. Nothing else is kept of the
// lists of a job that is not known to be: three bytes of JSON are a task.
type marks struct{ gated, held bool }

func (m *marks) add(other marks) {
	m.gated, m.held = m.gated || other.gated, m.held || other.held
}

func (j *outlinedJob) marks() marks {
	all := j.Constraints.marks
	all.add(j.TaskGroups.marks)
	return all
}

type outlinedGroups struct{ marks }

// UnmarshalJSON reads the groups of a job one by one.
func (g *outlinedGroups) UnmarshalJSON(list []byte) error {
	return each(list, func(group struct {
		Constraints outlinedConstraints
		Tasks       outlinedTasks
	}) {
		g.add(group.Constraints.marks)
		g.add(group.Tasks.marks)
	})
}

type outlinedTasks struct{ marks }

// UnmarshalJSON reads the tasks of a group one by one.
func (t *outlinedTasks) UnmarshalJSON(list []byte) error {
	return each(list, func(task struct {
		Driver      string
		Constraints outlinedConstraints
	}) {
		t.add(marks{gated: task.Driver == Driver})
		t.add(task.Constraints.marks)
	})
}

type outlinedConstraints struct{ marks }

// UnmarshalJSON reads constraints one by one.
func (c *outlinedConstraints) UnmarshalJSON(list []byte) error {
	return each(list, func(one api.Constraint) { c.add(marks{held: isHold(&one)}) })
}

// each reads the elements of a JSON list one after another, of which null is none.
func each[T any](list []byte, look func(T)) error {
	elements := json.NewDecoder(bytes.NewReader(list))
	switch open, err := elements.Token(); {
	case err != nil:
		return err
	case open == nil:
		return nil
	case open != json.Delim('['):
		return fmt.Errorf("%v where a list is to be", open)
	}
	for elements.More() {
		var one T
		if err := elements.Decode(&one); err != nil {
			return err
		}
		look(one)
	}
	return nil
}
