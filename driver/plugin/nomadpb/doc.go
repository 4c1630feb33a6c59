// Package nomadpb is Nomad's plugin protocol, base and task driver, as protobuf
// messages and gRPC services: generated code and nothing else. The names and
// numbers are Nomad's, the files are ours.
//
// driver/plugin serves it, driver/host calls it.
//
//go:generate ./generate
package nomadpb
