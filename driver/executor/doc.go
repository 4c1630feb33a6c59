// Package executor runs one command on Linux in a small process of its own, so
// that the command and the knowledge of how it ended outlive whoever asked for
// it.
//
// It is both sides: Start, Attach and Process are called by driver; Main is the
// executor process, which cmd/nomad-driver-psg enters as a subcommand. The two
// share one directory per command:
//
//	lock          held by the executor for as long as it lives
//	control.sock  requests: wait, signal, stop
//	starting      the command may run from now on
//	started.json  the command runs, with its pid and start time
//	exit.json     the command is over, and how; written once, before lock is freed
//
// A directory runs at most one command, once: what may have started is never
// started again, even where its executor was killed before it could say so. The package knows nothing of gates, grants or Nomad.
package executor
