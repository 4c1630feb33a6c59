// Package telemetry is what both ends of PSG's telemetry agree on: how an agent
// turns measurements into samples (Recorder), and how a controller, or the agent
// itself, turns samples into statistics over windows (Windows).
//
// It moves nothing and measures nothing: package agent calls Put and Cut, package
// bus carries what Cut returns, cmd/psg folds it and hands the controller
// psg.NodeObserved. It does no I/O and reads no clock.
//
// # Values
//
// A metric is named with its unit: "cpu_percent", "memory_used_mb". Values
// travel as whole units: tenths of a percent, MiB, else hundredths (see Scale). A
// value is sent when it has left the one sent before by more than a unit and by
// more than 0.5 percent; full samples hold the exact ones.
//
// # Slots and windows
//
// The values of each span of 10 s, aligned to the Unix epoch, make a slot: per
// series their count, sum, largest value and a DDSketch of 1 percent relative
// accuracy (Masson, Rim, Lee: "DDSketch", VLDB 2019), so that any number of
// slots merge into one. A window is such a merge in which each slot counts
// alike, however often it was sampled:
//
//	10 s  the slot that is still open, as heard so far, and of the one before it the share that is younger than 10 s
//	60 s  the last 6 whole slots
//	5 m   the last 30 whole slots
//
// Means are exact to a unit, quantiles within 1 percent and half a unit, those
// of the open slot within another 0.5 percent. A maximum may be as old as the
// oldest slot that is counted in part.
//
// # Loss, repetition, disorder
//
// Each value stands with the sequence number it was sent under and only gives
// way to a later one; a slot is a fact that is taken once. So samples may arrive
// in any order and any number of times. What is lost is mended by the next full
// sample, at most a minute later, and the whole slots that trickle after it, one
// a sample: two consumers that have heard them say the same, whatever they
// missed before.
package telemetry
