// Package sim replays recorded arrivals against the placement engine in virtual
// time and writes down what it decided, so that placement can be measured on
// public traces. It runs the engine that ships, never a copy of it, with the
// weights that ship. Machine reassignment instances of the ROADEF challenge go to
// the local search of placement/search.
//
// It judges nothing itself: an independent referee reads what it writes. The
// psg command calls it.
package sim
