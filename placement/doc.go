// Package placement chooses which node, and which cards, each ask gets.
//
// An Engine is told of the cluster by deltas and answers Solve with a Plan:
// for each ask a placement with its score in named parts, or a refusal with
// the reasons that exclude nodes and the nodes that came closest. It is pure:
// no clock, no I/O, no goroutines, no randomness of its own. Time, budget and
// policy's rulings are arguments, and the same nodes, workloads, placements
// and problem give the same plan, byte for byte, whatever the history of
// deltas that led there.
//
// It does not rule (policies does), does not decide whose turn it is beyond
// priority and age (the controller orders tenants), writes nothing down and
// tells nobody: Solve leaves the engine as it was, and what the controller
// commits comes back as deltas. The controller calls it in each cycle; the
// simulator and what-if call the same engine with virtual time.
//
// How candidates are found without looking at every node stands in
// docs/design/0004-placement.md.
package placement
