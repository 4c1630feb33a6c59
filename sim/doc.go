// Package sim replays recorded arrivals against the placement engine in virtual
// time and writes down what it decided, so that placement can be measured on
// public traces. It runs the engine that ships, never a copy of it, with the
// weights that ship.
//
// It judges nothing itself: an independent referee reads what it writes. The
// psg command calls it.
package sim
