package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
)

// Limits on job JSON, which may come from anyone.
const (
	maxInput   = 16 << 20 // bytes
	maxDepth   = 100      // objects and lists within one another
	maxString  = 512 << 10
	maxObjects = 100_000 // in all: {} is three bytes of JSON but half a kilobyte as a task
	maxUnknown = 1000    // keys
)

// scan walks JSON beside the Go type it is about to be decoded into. It finds
// what encoding/json would pass over or report without a path: unknown and
// repeated keys, wrong types, too much depth. It stops at the first fault and
// returns the keys that no field takes.
func scan(data []byte, into reflect.Type) ([]Loss, error) {
	s := scanner{dec: json.NewDecoder(bytes.NewReader(data)), shapes: jobShapes()}
	s.dec.UseNumber()
	if err := s.value(into, 0); err != nil {
		return nil, err
	}
	if _, err := s.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, Problems{{Text: fmt.Sprintf("more follows the JSON value (offset %d)", s.dec.InputOffset())}}
	}
	return s.unknown, nil
}

type scanner struct {
	dec     *json.Decoder
	shapes  shapes
	steps   []step // from the root to the value being read
	objects int
	unknown []Loss
}

// step is one key or, when not below zero, one index. Paths are put together
// only for what is reported.
type step struct {
	name  string
	index int
}

func (s *scanner) path() string {
	path := ""
	for _, one := range s.steps {
		if one.index < 0 {
			path = field(path, one.name)
		} else {
			path = elem(path, one.index)
		}
	}
	return path
}

func (s *scanner) fault(format string, args ...any) error {
	return Problems{{s.path(), fmt.Sprintf(format, args...)}}
}

// below reads a value one step further down.
func (s *scanner) below(one step, t reflect.Type, depth int) error {
	s.steps = append(s.steps, one)
	err := s.value(t, depth+1)
	s.steps = s.steps[:len(s.steps)-1]
	return err
}

// value reads one value; a nil type takes anything.
func (s *scanner) value(t reflect.Type, depth int) error {
	if depth > maxDepth {
		return s.fault("nested more than %d deep", maxDepth)
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && t.Kind() == reflect.Interface {
		t = nil
	}
	token, err := s.token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return s.object(t, depth)
	case json.Delim('['):
		return s.list(t, depth)
	}
	return s.scalar(token, t)
}

func (s *scanner) object(t reflect.Type, depth int) error {
	if t != nil && t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return s.mismatch(t, "an object")
	}
	if s.objects++; s.objects > maxObjects {
		return s.fault("more than %d objects", maxObjects)
	}
	seen := map[string]bool{}
	for s.dec.More() {
		token, err := s.token()
		if err != nil {
			return err
		}
		key := token.(string) // the decoder takes nothing else here
		name, inner, known := s.member(t, key)
		if seen[name] {
			return Problems{{field(s.path(), key), "stands twice in one object"}}
		}
		seen[name] = true
		if !known && len(s.unknown) == maxUnknown {
			return s.fault("more than %d unknown fields", maxUnknown)
		}
		if !known {
			s.unknown = append(s.unknown, Loss{field(s.path(), key), "no such field in a Nomad job"})
		}
		if err := s.below(step{name, -1}, inner, depth); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

// member finds what a key of an object of type t is called and holds.
func (s *scanner) member(t reflect.Type, key string) (name string, inner reflect.Type, known bool) {
	switch {
	case t == nil:
		return key, nil, true
	case t.Kind() == reflect.Map:
		return key, t.Elem(), true
	}
	if f, ok := s.shapes.find(t, key); ok {
		return f.name, f.typ, true
	}
	return key, nil, false
}

func (s *scanner) list(t reflect.Type, depth int) error {
	var inner reflect.Type
	if t != nil {
		if t.Kind() != reflect.Slice || t.Elem().Kind() == reflect.Uint8 {
			return s.mismatch(t, "a list")
		}
		inner = t.Elem()
	}
	for i := 0; s.dec.More(); i++ {
		if err := s.below(step{index: i}, inner, depth); err != nil {
			return err
		}
	}
	_, err := s.token()
	return err
}

func (s *scanner) token() (json.Token, error) {
	token, err := s.dec.Token()
	switch {
	case err == nil:
		return token, nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, s.fault("the JSON ends early")
	}
	return nil, s.fault("%v (offset %d)", err, s.dec.InputOffset())
}

// scalar checks a string, number, bool or null against the type that will hold
// it. Null fits everything, as in encoding/json.
func (s *scanner) scalar(token json.Token, t reflect.Type) error {
	switch v := token.(type) {
	case string:
		if len(v) > maxString {
			return s.fault("a string of %d bytes is longer than %d", len(v), maxString)
		}
		if t != nil && t.Kind() != reflect.String && t.Kind() != reflect.Slice {
			return s.mismatch(t, "a string")
		}
	case bool:
		if t != nil && t.Kind() != reflect.Bool {
			return s.mismatch(t, "a bool")
		}
	case json.Number:
		return s.number(v.String(), t)
	}
	return nil
}

func (s *scanner) number(text string, t reflect.Type) error {
	if t == nil {
		t = reflect.TypeFor[float64]()
	}
	var err error
	switch t.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		_, err = strconv.ParseInt(text, 10, t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		_, err = strconv.ParseUint(text, 10, t.Bits())
	case reflect.Float32, reflect.Float64:
		_, err = strconv.ParseFloat(text, t.Bits())
	default:
		return s.mismatch(t, "a number")
	}
	if err != nil {
		return s.fault("%.*s does not fit %s", shownText, text, describe(t))
	}
	return nil
}

func (s *scanner) mismatch(t reflect.Type, got string) error {
	return s.fault("expected %s, got %s", describe(t), got)
}

func describe(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a base64 string"
		}
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a bool"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	kind := strings.TrimLeft(t.Kind().String(), "uint")
	if kind == "" {
		kind = "64"
	}
	if strings.HasPrefix(t.Kind().String(), "u") {
		return "a whole number of " + kind + " bits, not negative"
	}
	return "a whole number of " + kind + " bits"
}
