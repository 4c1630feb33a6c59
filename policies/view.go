package policies

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/hclspec"
)

// view is a snapshot as Rego sees it. Its rows are the snapshot's.
type view struct {
	nodes   []*document
	holding *holding
	*surroundings
}

// surroundings are what policies read besides workload and node. They are kept
// apart so that what remembers them does not keep a whole view alive.
type surroundings struct {
	at      time.Time // of the snapshot
	now     *ast.Term
	cluster *ast.Term            // nil when no policy reads it
	sources map[string]*ast.Term // data that may be read
	stale   map[string]string    // data that may not, and what to say instead
}

// emptyView is one without nodes.
func emptyView() *view { return &view{surroundings: &surroundings{}} }

// viewer makes views and keeps the last one: within a cycle all workloads are
// ruled on the same snapshot, and most nodes are the same in the next.
type viewer struct {
	aggregates []hclspec.Aggregate
	cluster    bool // whether data.cluster is wanted

	mu       sync.Mutex
	known    map[psg.WorkloadID]*psg.Workload // copies that documents share
	snapshot *psg.Snapshot
	fed      *feeds
	last     *view
}

// of returns the view of a snapshot with the data fed so far.
func (v *viewer) of(snapshot *psg.Snapshot, fed *feeds) *view {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snapshot == snapshot && v.fed == fed {
		return v.last
	}
	if v.snapshot == snapshot && v.last != nil { // only what sources answer is another
		next, around := *v.last, *v.last.surroundings
		around.sources, around.stale = fed.at(snapshot.At)
		next.surroundings = &around
		v.fed, v.last = fed, &next
		return v.last
	}
	previous := v.last
	if previous == nil {
		previous = emptyView()
	}
	holding := v.hold(snapshot)
	next := &view{
		nodes: v.documents(snapshot, holding.residents, previous.nodes), holding: holding,
		surroundings: &surroundings{at: snapshot.At, now: integer(snapshot.At.UnixNano())},
	}
	if next.now.Equal(previous.now) {
		next.now = previous.now
	}
	if v.cluster {
		next.cluster = clusterDocument(snapshot, holding.residents)
		if next.cluster.Equal(previous.cluster) {
			next.cluster = previous.cluster
		}
	}
	next.sources, next.stale = fed.at(snapshot.At)
	v.snapshot, v.fed, v.last = snapshot, fed, next
	return next
}

// latest is the snapshot of the last view; nil for none.
func (v *viewer) latest() *psg.Snapshot {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.snapshot
}

// reservation reports whether a placement holds room for an allocation to come.
func reservation(p *psg.Placement) bool { return p.Ask.Hold > 0 }

// before is a view as a workload finds it when it takes up its reservations:
// they do not stand in its own way.
func (v *view) before(w psg.WorkloadID, snapshot *psg.Snapshot, aggregates []hclspec.Aggregate) *view {
	rows := v.holding.reserved[w]
	if len(rows) == 0 {
		return v
	}
	without := *v
	without.nodes = slices.Clone(v.nodes)
	for _, row := range rows {
		others := slices.DeleteFunc(slices.Clone(v.holding.residents[row]), func(r resident) bool {
			return r.placement.Ask.Workload == w && reservation(r.placement)
		})
		node := &snapshot.Nodes[row]
		without.nodes[row] = newDocument(node, others, aggregates)
	}
	return &without
}

func (v *viewer) documents(snapshot *psg.Snapshot, residents [][]resident, previous []*document) []*document {
	documents := make([]*document, len(snapshot.Nodes))
	for row := range snapshot.Nodes {
		node := &snapshot.Nodes[row]
		old := &document{aggregates: v.aggregates}
		if at := rowOf(previous, node.ID, row); at >= 0 {
			old = previous[at]
		}
		documents[row] = old.next(node, residents[row])
	}
	return documents
}

// rowOf finds a node among documents in the order of node IDs, most likely at
// the row guessed; -1 means it is not there.
func rowOf(documents []*document, id psg.NodeID, guess int) int {
	if guess < len(documents) && documents[guess].node.ID == id {
		return guess
	}
	row, ok := slices.BinarySearchFunc(documents, id, func(d *document, id psg.NodeID) int { return cmp.Compare(d.node.ID, id) })
	if !ok {
		return -1
	}
	return row
}
