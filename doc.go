// Package psg holds the nouns of the Policy-driven Service Grid and the small
// contracts between its parts: what is to be placed (Workload, Ask), where
// (Node, Device), what policy says (Ruling), what was decided (Plan, Placement,
// Refusal), and how that is recorded and carried out (Delta, Record, Order).
//
// It does no I/O, reads no clock, starts no goroutine and logs nothing: time
// and identity are always arguments. Adapters (shim, kube, driver, agent)
// translate the outer world into these nouns; policies and placement decide
// with them; controller, ledger and bus carry them. It imports the standard
// library only, and every other package may import it.
//
// Every quantity is an integer in one unit:
//
//	CPU      MHz, as Nomad counts (Kubernetes: 1 milli-CPU is 1 MHz)
//	memory   MiB
//	disk     MiB
//	GPU      milli-GPU (1000 is one whole card)
//	network  Mbit/s
//	I/O      operations per second
//	points   milli-points (1000 is one point of policy score)
package psg
