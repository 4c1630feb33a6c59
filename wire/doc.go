// Package wire turns psg's nouns into bytes and back: protobuf messages of
// psg.v1, whose definitions and generated code stand in wire/psg/v1.
//
// It is an encoding only: it knows no transport and decides nothing. The bus
// calls Encode and Decode for what it stores and publishes; rpc calls ToProto
// and FromProto for what its methods carry.
//
// Both directions hold the same contract, so that whatever was encoded can be
// decoded: known enumeration values, finite metrics, Resources that pass
// Validate, times within the years 1 to 9999, valid UTF-8. What breaks it is an
// error that wraps psg.ErrInvalid and names the field, such as
// "deltas[3].placed.placement.state". Whether IDs exist and numbers make sense
// is for the readers to judge.
//
// Decoded values are canonical: times are UTC, and an empty list or map is nil.
// Fields that this version does not know are ignored, as protobuf means them to
// be; an unknown kind of delta, or an unknown enumeration value, is an error.
//
//go:generate ./generate
package wire
