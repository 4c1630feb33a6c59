package plugin

import (
	"fmt"
	"strconv"

	"github.com/psgrid/psg/driver/plugin/nomadpb"
	"github.com/psgrid/psg/hclspec"
)

// spec turns declared fields into the schema that Nomad checks a body with.
func spec(fields []hclspec.Field) *nomadpb.Spec {
	attributes := make(map[string]*nomadpb.Spec, len(fields))
	for _, f := range fields {
		attributes[f.Name] = fieldSpec(f)
	}
	return &nomadpb.Spec{Block: &nomadpb.Spec_Object{Object: &nomadpb.Object{Attributes: attributes}}}
}

func fieldSpec(f hclspec.Field) *nomadpb.Spec {
	switch f.Type {
	case hclspec.Block:
		return &nomadpb.Spec{Block: &nomadpb.Spec_BlockValue{BlockValue: &nomadpb.Block{
			Name: f.Name, Required: f.Required, Nested: spec(f.Fields),
		}}}
	case hclspec.Map:
		// Unlike an attribute, it takes both `labels = {…}` and `labels {…}`.
		return &nomadpb.Spec{Block: &nomadpb.Spec_BlockAttrs{BlockAttrs: &nomadpb.BlockAttrs{
			Name: f.Name, Type: "string", Required: f.Required,
		}}}
	}
	kind := string(f.Type)
	if f.Type == hclspec.Duration {
		kind = "string"
	}
	attr := &nomadpb.Spec{Block: &nomadpb.Spec_Attr{Attr: &nomadpb.Attr{Name: f.Name, Type: kind, Required: f.Required}}}
	if f.Default == nil {
		return attr
	}
	return &nomadpb.Spec{Block: &nomadpb.Spec_Default{Default: &nomadpb.Default{
		Primary: attr,
		Default: &nomadpb.Spec{Block: &nomadpb.Spec_Literal{Literal: &nomadpb.Literal{Value: literal(f.Default)}}},
	}}}
}

// literal writes a default as an HCL expression.
func literal(value any) string {
	if s, ok := value.(string); ok {
		return strconv.Quote(s)
	}
	return fmt.Sprint(value)
}
