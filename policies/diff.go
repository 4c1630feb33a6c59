package policies

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/psgrid/psg"
)

// Difference is what changes when one bundle takes the place of another.
type Difference struct {
	Pairs     int              `json:"pairs"` // of workload and node that were compared
	Workloads []WorkloadChange `json:"workloads,omitempty"`
}

// WorkloadChange is what changes for one workload.
type WorkloadChange struct {
	Workload  psg.WorkloadID `json:"workload"`
	Rejected  *ReasonChange  `json:"rejected,omitempty"`
	Protected *ReasonChange  `json:"protected,omitempty"`
	Nodes     []NodeChange   `json:"nodes,omitempty"` // in the order of node IDs
}

// ReasonChange is reasons before and after.
type ReasonChange struct {
	Old []psg.Reason `json:"old,omitempty"`
	New []psg.Reason `json:"new,omitempty"`
}

// NodeChange is what each bundle says of one workload on one node.
type NodeChange struct {
	Old NodeVerdict `json:"old"`
	New NodeVerdict `json:"new"`
}

// Diff rules on every workload of a snapshot, given as its JSON, with two
// bundles, and returns the verdicts that differ: whether a node is allowed and
// why not, its score, and what is only audited.
func Diff(ctx context.Context, oldDir, newDir string, snapshot []byte) (Difference, error) {
	sets := [2]*Set{}
	for i, dir := range [2]string{oldDir, newDir} {
		set, err := Load(dir)
		if err != nil {
			return Difference{}, err
		}
		sets[i] = set
	}
	view, err := decodeSnapshot(snapshot)
	if err != nil {
		return Difference{}, err
	}
	out := Difference{Pairs: len(view.Workloads) * len(view.Nodes)}
	for i := range view.Workloads {
		reports := [2]Report{}
		for side, set := range sets {
			ruling, err := set.Rule(ctx, &view.Workloads[i], view)
			if err != nil {
				return Difference{}, err
			}
			reports[side] = NewReport(&ruling, view)
		}
		if change := changeOf(reports[0], reports[1]); change != nil {
			out.Workloads = append(out.Workloads, *change)
		}
	}
	return out, nil
}

// changeOf is nil when two reports say the same.
func changeOf(before, after Report) *WorkloadChange {
	change := WorkloadChange{
		Workload: before.Workload,
		Rejected: reasonChange(before.Rejected, after.Rejected), Protected: reasonChange(before.Protected, after.Protected),
	}
	for i, v := range before.Nodes {
		if !v.same(after.Nodes[i]) {
			change.Nodes = append(change.Nodes, NodeChange{v, after.Nodes[i]})
		}
	}
	if change.Rejected == nil && change.Protected == nil && change.Nodes == nil {
		return nil
	}
	return &change
}

func reasonChange(before, after []psg.Reason) *ReasonChange {
	if slices.Equal(before, after) {
		return nil
	}
	return &ReasonChange{before, after}
}

func (v NodeVerdict) same(other NodeVerdict) bool {
	return v.Allowed == other.Allowed && v.Score == other.Score && slices.Equal(v.Denied, other.Denied) &&
		slices.Equal(v.Scores, other.Scores) && slices.Equal(v.Audit, other.Audit)
}

// WriteText writes the difference for people: lines of - for the old bundle and
// of + for the new one.
func (d Difference) WriteText(w io.Writer) error {
	out := &bytes.Buffer{}
	changed := 0
	for _, workload := range d.Workloads {
		fmt.Fprintf(out, "workload %s\n", workload.Workload)
		workload.Rejected.write(out, "rejected")
		workload.Protected.write(out, "protected")
		for _, node := range workload.Nodes {
			changed++
			fmt.Fprintf(out, "  node %s\n", node.Old.Node)
			node.Old.write(out, "-", node.New)
			node.New.write(out, "+", node.Old)
		}
	}
	fmt.Fprintf(out, "%d of %d verdicts differ\n", changed, d.Pairs)
	_, err := w.Write(out.Bytes())
	return err
}

func (c *ReasonChange) write(out io.Writer, what string) {
	if c == nil {
		return
	}
	for _, reason := range c.Old {
		fmt.Fprintf(out, "  - %s: %s: %s\n", what, reason.Source, reason.Text)
	}
	for _, reason := range c.New {
		fmt.Fprintf(out, "  + %s: %s: %s\n", what, reason.Source, reason.Text)
	}
}

// write writes what one bundle says and the other does not.
func (v NodeVerdict) write(out io.Writer, sign string, other NodeVerdict) {
	if v.Allowed && !other.Allowed {
		fmt.Fprintf(out, "    %s allowed\n", sign)
	}
	for _, reason := range v.Denied {
		if !slices.Contains(other.Denied, reason) {
			fmt.Fprintf(out, "    %s denied: %s: %s\n", sign, reason.Source, reason.Text)
		}
	}
	for _, part := range v.Scores {
		if !slices.Contains(other.Scores, part) {
			fmt.Fprintf(out, "    %s score %s: %s\n", sign, points(part.Points), part.Name)
		}
	}
	for _, reason := range v.Audit {
		if !slices.Contains(other.Audit, reason) {
			fmt.Fprintf(out, "    %s audit, would deny: %s: %s\n", sign, reason.Source, reason.Text)
		}
	}
}
