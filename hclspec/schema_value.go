package hclspec

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"
)

// convert turns a value as it came from HCL, JSON or msgpack into the Go type
// of a field: string, int64, bool, []string, map[string]string or
// time.Duration. Primitive types convert into one another as HCL converts
// them, so that the job a proxy reads means what the node will read.
func convert(t Type, value any) (any, error) {
	switch t {
	case String:
		if s, ok := text(value); ok {
			return s, nil
		}
	case Number:
		return number(value)
	case Bool:
		switch v := value.(type) {
		case bool:
			return v, nil
		case string:
			if v == "true" || v == "false" {
				return v == "true", nil
			}
		}
	case List:
		return list(value)
	case Map:
		return stringMap(value)
	case Duration:
		return duration(value)
	}
	return nil, mismatch(t, value)
}

// text reads a primitive as a string.
func text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	case float32, float64:
		return strconv.FormatFloat(reflect.ValueOf(v).Float(), 'f', -1, 64), true
	}
	switch v := reflect.ValueOf(value); {
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10), true
	case v.CanUint():
		return strconv.FormatUint(v.Uint(), 10), true
	}
	return "", false
}

// number reads a whole number that fits an int64.
func number(value any) (int64, error) {
	if _, isBool := value.(bool); isBool {
		return 0, mismatch(Number, value)
	}
	written, ok := text(value)
	if !ok {
		return 0, mismatch(Number, value)
	}
	// The least int64 stands for a number that was not given.
	if n, err := strconv.ParseInt(written, 10, 64); err == nil && n != notGiven {
		return n, nil
	}
	f, err := strconv.ParseFloat(written, 64)
	switch {
	case err != nil && !math.IsInf(f, 0), math.IsNaN(f):
		return 0, mismatch(Number, value)
	case math.Abs(f) >= 1<<63:
		return 0, fmt.Errorf("%s is too large", quote(value))
	case f != math.Trunc(f):
		return 0, fmt.Errorf("expected a whole number, got %s", quote(value))
	}
	return int64(f), nil
}

func list(value any) ([]string, error) {
	if strs, ok := value.([]string); ok {
		return append([]string(nil), strs...), nil
	}
	items, ok := value.([]any)
	if !ok {
		return nil, mismatch(List, value)
	}
	out := make([]string, len(items))
	for i, item := range items {
		s, ok := text(item)
		if !ok {
			return nil, fmt.Errorf("item %d: %w", i, mismatch(String, item))
		}
		out[i] = s
	}
	return out, nil
}

func stringMap(value any) (map[string]string, error) {
	if strs, ok := value.(map[string]string); ok {
		out := make(map[string]string, len(strs))
		for k, v := range strs {
			out[k] = v
		}
		return out, nil
	}
	object, err := blockOf(value)
	if err != nil {
		return nil, mismatch(Map, value)
	}
	out := make(map[string]string, len(object))
	for _, key := range sortedKeys(object) {
		s, ok := text(object[key])
		if !ok {
			return nil, fmt.Errorf("key %q: %w", key, mismatch(String, object[key]))
		}
		out[key] = s
	}
	return out, nil
}

func duration(value any) (time.Duration, error) {
	written, ok := value.(string)
	if !ok {
		return 0, mismatch(Duration, value)
	}
	d, err := time.ParseDuration(written)
	if err != nil {
		return 0, mismatch(Duration, value)
	}
	return d, nil
}

// blockOf reads a nested object in each form it may arrive in: HCL parsers give
// a block as a list of one object.
func blockOf(value any) (map[string]any, error) {
	switch v := value.(type) {
	case map[string]any:
		return v, nil
	case map[any]any: // msgpack without a schema
		out := make(map[string]any, len(v))
		for key, item := range v {
			name, ok := key.(string)
			if !ok {
				return nil, mismatch(Block, value)
			}
			out[name] = item
		}
		return out, nil
	case []map[string]any:
		if len(v) == 1 {
			return v[0], nil
		}
		return nil, fmt.Errorf("expected one block, got %d", len(v))
	case []any:
		if len(v) == 1 {
			if _, nestedList := v[0].([]any); !nestedList {
				return blockOf(v[0])
			}
			return nil, mismatch(Block, value)
		}
		return nil, fmt.Errorf("expected one block, got %d", len(v))
	}
	return nil, mismatch(Block, value)
}
