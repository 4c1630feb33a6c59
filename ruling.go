package psg

// Reason says why something was refused, denied or scored, in words a user can
// act on.
type Reason struct {
	Source string `json:"source"` // who says so: "policy gpu_colocation", "capacity", "constraint", "port"
	Text   string `json:"text"`
}

// Ruling is what policy says of one workload on every node. Nodes are rows of
// the Snapshot it was made from: row i is Snapshot.Nodes[i]. It is not to be
// changed: rulings share bitmaps.
type Ruling struct {
	Workload  WorkloadID
	Rejected  []Reason  // the workload itself is not admitted, anywhere
	Protected []Reason  // its running instances may be neither preempted nor moved
	Denials   []Denial  // which nodes policy denies, and why
	Scorings  []Scoring // which nodes policy favours, and why
	Audit     []Denial  // what policies in audit mode would have denied; not applied

	// Explain, when set, is what Why and WhyAudit answer: the reasons that deny
	// a row and those that would. Reasons that name a row's node are made when
	// they are asked for; Denials then hold the rows of a rule under the pattern
	// of its reasons. It is safe for concurrent use.
	Explain func(row int) (denied, audit []Reason)
}

// Denial is one distinct reason and the rows it denies.
type Denial struct {
	Reason Reason
	Rows   Bitmap
}

// Scoring is a reason with points and the rows it gives them to. A reason may
// have several, of which the rows overlap: they add up.
type Scoring struct {
	Reason Reason
	Points int64 // milli-points; policy score is the sum over all Scorings
	Rows   Bitmap
}

// Denied returns the rows that any policy denies, out of n.
func (r *Ruling) Denied(n int) Bitmap {
	denied := NewBitmap(n)
	for _, denial := range r.Denials {
		denied.Or(denial.Rows)
	}
	return denied
}

// Why returns the reasons that deny one row, in the order of Denials; none
// means the row is allowed.
func (r *Ruling) Why(row int) []Reason {
	if r.Explain != nil {
		denied, _ := r.Explain(row)
		return denied
	}
	return reasonsOf(r.Denials, row)
}

// WhyAudit returns the reasons for which policies in audit mode would have
// denied one row.
func (r *Ruling) WhyAudit(row int) []Reason {
	if r.Explain != nil {
		_, audit := r.Explain(row)
		return audit
	}
	return reasonsOf(r.Audit, row)
}

func reasonsOf(denials []Denial, row int) []Reason {
	var reasons []Reason
	for _, denial := range denials {
		if denial.Rows.Has(row) {
			reasons = append(reasons, denial.Reason)
		}
	}
	return reasons
}

// Points returns the policy score of each of n rows, in milli-points.
func (r *Ruling) Points(n int) []int64 {
	points := make([]int64, n)
	for _, scoring := range r.Scorings {
		for row := range scoring.Rows.All() {
			points[row] += scoring.Points
		}
	}
	return points
}
