package wire

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"

	"github.com/psgrid/psg"
)

// coder carries one conversion, in either direction: the way from the root to
// the field it is at, and the first thing found wrong. Conversions go on after
// a failure and return zero values; the caller looks at err once, at the end.
type coder struct {
	path []step
	err  error
}

// step is a field by its wire name, and the index within it or -1.
type step struct {
	field string
	index int
}

func (c *coder) push(field string, index int) { c.path = append(c.path, step{field, index}) }
func (c *coder) pop()                         { c.path = c.path[:len(c.path)-1] }

// fail records what is wrong with a field of the current message. Only the
// first failure is kept.
func (c *coder) fail(field, format string, args ...any) {
	if c.err != nil {
		return
	}
	var where strings.Builder
	for _, s := range c.path {
		where.WriteString(s.field)
		if s.index >= 0 {
			fmt.Fprintf(&where, "[%d]", s.index)
		}
		where.WriteByte('.')
	}
	c.err = fmt.Errorf("%w: %s%s: %s", psg.ErrInvalid, where.String(), field, fmt.Sprintf(format, args...))
}

// each converts a list. None is nil.
func each[A, B any](c *coder, field string, in []A, convert func(*coder, A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, item := range in {
		c.push(field, i)
		out[i] = convert(c, item)
		c.pop()
	}
	return out
}

// put converts a part that is always there.
func put[A, B any](c *coder, field string, in A, convert func(*coder, A) B) B {
	c.push(field, -1)
	defer c.pop()
	return convert(c, in)
}

// get converts a part that must be there.
func get[A, B any](c *coder, field string, in *A, convert func(*coder, *A) B) B {
	if in == nil {
		c.fail(field, "missing")
		var none B
		return none
	}
	return put(c, field, in, convert)
}

// putOptional converts a part that may be nil.
func putOptional[A, B any](c *coder, field string, in *A, convert func(*coder, A) *B) *B {
	if in == nil {
		return nil
	}
	return put(c, field, *in, convert)
}

// getOptional converts a part that may be absent, then nil.
func getOptional[A, B any](c *coder, field string, in *A, convert func(*coder, *A) B) *B {
	if in == nil {
		return nil
	}
	out := put(c, field, in, convert)
	return &out
}

// finish returns a conversion, or what was wrong with it.
func finish[T any](c *coder, out T) (T, error) {
	if c.err != nil {
		var none T
		return none, c.err
	}
	return out, nil
}

// marshal writes a message that c has converted.
func marshal(c *coder, what string, m proto.Message) ([]byte, error) {
	if c.err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, c.err)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w: %s: %w", what, psg.ErrInvalid, notText(m), err)
	}
	return data, nil
}

// notText finds the first string that is not UTF-8, the one thing that protobuf
// itself refuses to write, and does not name.
func notText(m proto.Message) (where string) {
	visit := func(p protopath.Values) error {
		last := p.Index(-1)
		text, _ := last.Value.Interface().(string)
		key := ""
		if last.Step.Kind() == protopath.MapIndexStep {
			key = last.Step.MapIndex().String()
		}
		if utf8.ValidString(text) && utf8.ValidString(key) {
			return nil
		}
		where = strings.TrimPrefix(p.Path[1:].String(), ".")
		return protorange.Terminate
	}
	_ = protorange.Options{Stable: true}.Range(m.ProtoReflect(), visit, nil)
	return where
}

func unmarshal(data []byte, what string, m proto.Message) error {
	if err := proto.Unmarshal(data, m); err != nil {
		return fmt.Errorf("decode %s: %w: %w", what, psg.ErrInvalid, err)
	}
	return nil
}

// decode reads bytes into m and converts it.
func decode[M proto.Message, T any](data []byte, what string, m M, f func(*coder, M) T) (T, error) {
	var none T
	if err := unmarshal(data, what, m); err != nil {
		return none, err
	}
	var c coder
	out := f(&c, m)
	if c.err != nil {
		return none, fmt.Errorf("decode %s: %w", what, c.err)
	}
	return out, nil
}
