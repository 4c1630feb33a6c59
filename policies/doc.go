// Package policies turns a policy bundle into rulings: it compiles the Rego
// files that bundle.hcl names and says, for one workload, which nodes of a
// snapshot they deny or favour and why.
//
// Each policy is compiled alone, with its own params as data.params, so no
// policy can see or break another. What a policy may define:
//
//	deny contains reason if …            the workload on this node
//	score contains [reason, points] if … summed over all policies
//	reject contains reason if …          the workload alone, wherever it would go
//	protect contains reason if …         its instances: neither preempted nor moved
//
// A policy fails closed: one that errs, times out, gives something of the wrong
// shape or needs data that is stale denies the pair it was asked about, with
// that as the reason. Rulings depend on nothing but the bundle, the snapshot
// and the data fed: builtins that are not deterministic are refused at load.
//
// A policy is evaluated by columns over all nodes, pair by pair with closures, or
// by OPA itself, whichever is the fastest that is proved to say what OPA says
// (docs/design/0003).
//
// It fetches nothing (package poll does, and feeds it) and places nothing. The
// controller calls Rule once per workload and cycle; the command line calls
// Test, Check, Eval and Diff.
package policies
