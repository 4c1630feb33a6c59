// Package driver is the task driver of one node in PSG's own types: the gate
// that holds an allocation until the controller grants it, and the run of a
// command behind such a gate.
//
// A task passes through at most three steps, each recorded in its state
// directory before the next begins, so that a driver that is killed at any
// point resumes where it was:
//
//	gated ──granted, or fail = "open"──▶ gate mode: grant.env written, exit 0
//	  │                                  run mode:  command runs ──▶ its exit
//	  └──stopped──▶ exit by signal
//
// It decides nothing about placement, knows no wire protocol and logs through
// the logger it is given. driver/plugin puts Nomad's plugin protocol in front
// of it; driver/executor holds commands while it is away.
package driver
