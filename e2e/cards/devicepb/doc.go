// Package devicepb is Nomad's device plugin protocol as protobuf messages and a
// gRPC service: generated code and nothing else. The names and numbers are
// Nomad's, the files are ours. e2e/cards serves it.
//
//go:generate ./generate
package devicepb
