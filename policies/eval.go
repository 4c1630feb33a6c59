package policies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/psgrid/psg"
)

// Report is what a bundle says of one workload on each node of a snapshot, for
// people and tools.
type Report struct {
	Workload  psg.WorkloadID `json:"workload"`
	Rejected  []psg.Reason   `json:"rejected,omitempty"`
	Protected []psg.Reason   `json:"protected,omitempty"`
	Nodes     []NodeVerdict  `json:"nodes"` // in the order of node IDs
}

// NodeVerdict is what a bundle says of one workload on one node.
type NodeVerdict struct {
	Node    psg.NodeID      `json:"node"`
	Name    string          `json:"name,omitempty"`
	Allowed bool            `json:"allowed"` // by the node; a rejected workload goes nowhere all the same
	Denied  []psg.Reason    `json:"denied,omitempty"`
	Score   int64           `json:"score"` // milli-points
	Scores  []psg.ScorePart `json:"scores,omitempty"`
	Audit   []psg.Reason    `json:"audit,omitempty"`
}

// Eval loads a bundle and rules on one workload, given as the JSON of a
// psg.Workload, over a snapshot, given as the JSON of a psg.Snapshot.
func (c Config) Eval(ctx context.Context, dir string, workload, snapshot []byte) (Report, error) {
	set, err := c.Load(dir)
	if err != nil {
		return Report{}, err
	}
	var w psg.Workload
	if err := decodeStrictly("workload", workload, &w); err != nil {
		return Report{}, err
	}
	view, err := decodeSnapshot(snapshot)
	if err != nil {
		return Report{}, err
	}
	ruling, err := set.Rule(ctx, &w, view)
	if err != nil {
		return Report{}, err
	}
	return NewReport(&ruling, view), nil
}

func decodeSnapshot(data []byte) (*psg.Snapshot, error) {
	var view psg.Snapshot
	if err := decodeStrictly("snapshot", data, &view); err != nil {
		return nil, err
	}
	view.Sort()
	for i := 1; i < len(view.Nodes); i++ {
		if view.Nodes[i].ID == view.Nodes[i-1].ID {
			return nil, fmt.Errorf("snapshot: %w: node %q is there twice", psg.ErrInvalid, view.Nodes[i].ID)
		}
	}
	for i := 1; i < len(view.Workloads); i++ {
		if id := view.Workloads[i].ID; id == view.Workloads[i-1].ID {
			return nil, fmt.Errorf("snapshot: %w: workload %q is there twice", psg.ErrInvalid, id)
		}
	}
	return &view, nil
}

// addPart adds points to the part of a score that has a name.
func addPart(parts []psg.ScorePart, name string, points int64) []psg.ScorePart {
	for i := range parts {
		if parts[i].Name == name {
			parts[i].Points += points
			return parts
		}
	}
	return append(parts, psg.ScorePart{Name: name, Points: points})
}

func decodeStrictly(what string, data []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("something follows the JSON value")
		}
	}
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(data), []byte("null")) {
		err = errors.New("it is null")
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w: %w", what, psg.ErrInvalid, brief{err})
	}
	return nil
}

// brief is an error that may quote a text of any length.
type brief struct{ error }

func (b brief) Error() string { return fmt.Sprintf("%.300s", b.error) }

func (b brief) Unwrap() error { return b.error }

// NewReport turns a ruling by reasons into one by nodes.
func NewReport(ruling *psg.Ruling, snapshot *psg.Snapshot) Report {
	report := Report{ruling.Workload, ruling.Rejected, ruling.Protected, make([]NodeVerdict, len(snapshot.Nodes))}
	for row, node := range snapshot.Nodes {
		v := NodeVerdict{Node: node.ID, Name: node.Name, Denied: ruling.Why(row)}
		v.Allowed = v.Denied == nil
		for _, scoring := range ruling.Scorings {
			if scoring.Rows.Has(row) {
				v.Score += scoring.Points
				v.Scores = addPart(v.Scores, scoring.Reason.Source+": "+scoring.Reason.Text, scoring.Points)
			}
		}
		v.Audit = ruling.WhyAudit(row)
		report.Nodes[row] = v
	}
	return report
}

// WriteText writes the report for people.
func (r Report) WriteText(w io.Writer) error {
	out := &bytes.Buffer{}
	fmt.Fprintf(out, "workload %s\n", r.Workload)
	for _, reason := range r.Rejected {
		fmt.Fprintf(out, "  rejected: %s: %s\n", reason.Source, reason.Text)
	}
	for _, reason := range r.Protected {
		fmt.Fprintf(out, "  protected: %s: %s\n", reason.Source, reason.Text)
	}
	for _, node := range r.Nodes {
		verdict := "allowed"
		if !node.Allowed {
			verdict = "denied"
		}
		fmt.Fprintf(out, "node %s: %s, score %s\n", node.Node, verdict, points(node.Score))
		for _, reason := range node.Denied {
			fmt.Fprintf(out, "  denied: %s: %s\n", reason.Source, reason.Text)
		}
		for _, part := range node.Scores {
			fmt.Fprintf(out, "  score %s: %s\n", points(part.Points), part.Name)
		}
		for _, reason := range node.Audit {
			fmt.Fprintf(out, "  audit, would deny: %s: %s\n", reason.Source, reason.Text)
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

// points writes milli-points as points, without losing any.
func points(milli int64) string {
	sign := ""
	if milli < 0 {
		sign, milli = "-", -milli
	}
	if milli%1000 == 0 {
		return fmt.Sprintf("%s%d", sign, milli/1000)
	}
	return fmt.Sprintf("%s%d.%03d", sign, milli/1000, milli%1000)
}
