// Package search finds better assignments of items to nodes by local search:
// shifts of one item, swaps of two, and ejections, where a large item drives
// small ones out. Each is judged by what it changes, under simulated annealing
// and then descent, which also moves items together that must be near each other.
// sim calls it, on the challenge's instances.
//
// Its nouns are wider than the cluster's on purpose. A Problem has resources
// (some of which a moved item holds on both nodes), groups whose items must
// keep apart, spread over locations or stay near other groups, a cost for load
// above a safe level, for lopsided free room and for every move. That is the
// machine reassignment problem of the ROADEF/EURO challenge 2012, so that the
// search can be measured against published results.
//
// It is pure: no clock, no I/O, no goroutines. Seed, step budget and the share
// of time used are arguments; the same problem, seed and steps give the same
// assignment. It plans no order of moves: an assignment is reached by moving
// everything at once, with transient resources held on both sides.
package search
