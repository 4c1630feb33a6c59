// Package executor runs one command on Linux in a small process of its own, so
// that the command and the knowledge of how it ended outlive whoever asked for
// it.
//
// It is both sides: Start, Attach and Process are called by driver; Main is the
// executor process, which cmd/nomad-driver-psg enters as a subcommand. The two
// share one directory per command:
//
//	lock           held by the executor for as long as it lives
//	visit          held by whoever starts something in the command's control groups,
//	               and by whoever kills them
//	control.sock   requests: wait, signal, stop
//	starting.json  the command may run from now on, in these control groups
//	started.json   the command runs, with its pid and start time
//	exit.json      the command is over, and how; written once, before lock is freed
//
// A directory runs at most one command, once: what may have started is never
// started again, even where its executor was killed before it could say so.
// starting.json is made exclusively, so that a driver can also make it, to forbid
// a start that it waits for no longer. The package knows nothing of gates, grants
// or Nomad.
package executor
