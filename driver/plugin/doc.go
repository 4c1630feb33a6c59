// Package plugin serves driver.Driver to Nomad: go-plugin's handshake and
// gRPC, Nomad's plugin protocol, configs in msgpack. It translates and decides
// nothing; messages of the protocol do not leave it.
//
// cmd/nomad-driver-psg calls Serve; driver/host speaks the other end.
package plugin
