package psg

// Image is the ledger's state as of one record: what a controller starts from
// instead of the first record.
type Image struct {
	Sequence  uint64 // the record it is as of
	Epoch     Epoch
	Leader    string
	Bundle    Bundle
	Nodes     []Node
	Workloads []Workload
	Asks      []*AskStatus // those that are not over, by ID; then those that are, oldest first; not to be changed
}
