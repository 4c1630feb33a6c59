// Package incident measures how soon a latency-critical service recovers from a
// noisy neighbour, and tests the agent's orders, on real control groups with real
// load and the real agent.
//
// docs/design/0008 fixes what is measured, and was written before. It is all in
// tests: `make bench-incident` runs the measurement, `make test` the rest. The load
// is the program in load/.
package incident
