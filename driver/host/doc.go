// Package host loads the task driver's plugin binary and drives it as Nomad's
// client does: handshake, config checked against the plugin's schema,
// fingerprint, allocation directories, log FIFOs, events, recovery after the
// plugin was killed.
//
// `psg dev` runs workloads with it on a machine without Nomad, and tests reach
// the real plugin process through it. It is not a scheduler and not a client
// agent: it starts what it is told, on this machine, and keeps nothing on disk
// beyond its directory.
package host
