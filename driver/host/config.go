package host

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/psgrid/psg/driver/plugin/nomadpb"
)

// encode checks an object against the schema that the plugin gave and writes it
// as Nomad would.
func encode(spec *nomadpb.Spec, config map[string]any) ([]byte, error) {
	if err := check(spec, config, ""); err != nil {
		return nil, err
	}
	if config == nil {
		config = map[string]any{}
	}
	var out []byte
	if err := codec.NewEncoderBytes(&out, &codec.MsgpackHandle{WriteExt: true}).Encode(config); err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	return out, nil
}

// check reports what Nomad refuses before a plugin sees it: unknown and missing
// fields, nested blocks included. Types are left to the plugin's own decoder,
// which says more.
func check(spec *nomadpb.Spec, object map[string]any, path string) error {
	attributes := spec.GetObject().GetAttributes()
	var errs []error
	for _, name := range sortedKeys(object) {
		field, known := attributes[name]
		if !known {
			errs = append(errs, fmt.Errorf("%s%s: unknown field", path, name))
			continue
		}
		if block := field.GetBlockValue(); block != nil {
			if nested, ok := blockOf(object[name]); ok {
				errs = append(errs, check(block.GetNested(), nested, path+name+"."))
			}
		}
	}
	for _, name := range sortedKeys(attributes) {
		if required(attributes[name]) && object[name] == nil {
			errs = append(errs, fmt.Errorf("%s%s: is required", path, name))
		}
	}
	return errors.Join(errs...)
}

func required(spec *nomadpb.Spec) bool {
	return spec.GetAttr().GetRequired() || spec.GetBlockValue().GetRequired() || spec.GetBlockAttrs().GetRequired()
}

func blockOf(value any) (map[string]any, bool) {
	switch v := value.(type) {
	case map[string]any:
		return v, true
	case []map[string]any:
		if len(v) == 1 {
			return v[0], true
		}
	case []any:
		if len(v) == 1 {
			return blockOf(v[0])
		}
	}
	return nil, false
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
