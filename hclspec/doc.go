// Package hclspec declares what people write for PSG in HCL: policy bundles,
// the config of the task driver and the psg stanza of a task.
//
// The driver's config and the stanza are declared once as Fields and used
// three ways: driver/plugin turns them into the schema that Nomad checks jobs
// with, DecodeStanza and DecodePlugin read what arrives, and Document writes
// the reference table. Everything wrong with an input is reported at once, each
// problem with the path of its field.
//
// It reads no job files and decides nothing: shim and driver call it for the
// stanza, policies for bundles.
package hclspec
