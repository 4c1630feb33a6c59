// Package shim is the Nomad side of PSG: it turns what Nomad knows into the
// nouns of package psg.
//
// Translate and TranslateJob turn a job into workloads, together with a report
// of everything the job says that a workload does not carry. A Watcher follows
// a cluster - its nodes, jobs and allocations - and hands on deltas.
//
// It decides nothing and places nothing. It speaks to Nomad through its public
// HTTP API only, and no type of that API leaves the package except in the two
// arguments that come from there: an *api.Job and an *api.Client. The
// controller's wiring and the command line call it.
package shim
