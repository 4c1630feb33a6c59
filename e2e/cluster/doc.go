// Package cluster starts what the end-to-end tests run against: PSG's binaries
// as they are built for users, a controller process, and a real Nomad agent with
// the driver plugin and simulated cards.
//
// Whoever starts a part ends it; Leftovers finds what a part left behind. It
// knows nothing of PSG beyond its command lines and addresses, and asserts
// nothing.
package cluster
