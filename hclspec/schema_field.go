package hclspec

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"
)

// StringField declares a string that decodes into target.
func StringField(name string, target *string, doc string) Field {
	return Field{Name: name, Type: String, Doc: doc, set: into(target)}
}

// NumberField declares a whole number that decodes into target.
func NumberField(name string, target *int64, doc string) Field {
	return Field{Name: name, Type: Number, Doc: doc, set: into(target)}
}

// BoolField declares a boolean that decodes into target.
func BoolField(name string, target *bool, doc string) Field {
	return Field{Name: name, Type: Bool, Doc: doc, set: into(target)}
}

// ListField declares a list of strings that decodes into target.
func ListField(name string, target *[]string, doc string) Field {
	return Field{Name: name, Type: List, Doc: doc, set: into(target)}
}

// MapField declares a map of strings that decodes into target. It may be
// written as an attribute or as a block.
func MapField(name string, target *map[string]string, doc string) Field {
	return Field{Name: name, Type: Map, Doc: doc, set: into(target)}
}

// DurationField declares a duration that decodes into target.
func DurationField(name string, target *time.Duration, doc string) Field {
	return Field{Name: name, Type: Duration, Doc: doc, set: into(target)}
}

// BlockField declares a nested object whose fields decode into value; target
// points to value once the block is there and stays nil when it is not.
func BlockField[T any](name string, target **T, value *T, fields []Field, doc string) Field {
	return Field{Name: name, Type: Block, Doc: doc, Fields: fields, set: func(any) { *target = value }}
}

// into stores decoded values of type T; convert gives no other.
func into[T any](target *T) func(any) {
	return func(value any) { *target = value.(T) }
}

// mandatory marks a field that must be given.
func (f Field) mandatory() Field {
	f.Required = true
	return f
}

// or gives a field its default.
func (f Field) or(value any) Field {
	f.Default = value
	return f
}

// mismatch says what was expected and what came instead.
func mismatch(want Type, value any) error {
	expected := map[Type]string{
		String: "a string", Number: "a number", Bool: "true or false", List: "a list of strings",
		Map: "a map of strings", Duration: `a duration such as "90s"`, Block: "a block",
	}[want]
	return fmt.Errorf("expected %s, got %s", expected, quote(value))
}

// quote names a value's type and, where it is short, the value itself.
func quote(value any) string {
	switch v := value.(type) {
	case nil:
		return "null"
	case string:
		if len(v) > 40 {
			return fmt.Sprintf("a string of %d bytes", len(v))
		}
		return fmt.Sprintf("string %q", v)
	case bool:
		return fmt.Sprintf("bool %t", v)
	case []byte:
		return fmt.Sprintf("%d raw bytes", len(v))
	}
	switch kind := reflect.ValueOf(value).Kind(); kind {
	case reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "a list"
	}
	if written, ok := text(value); ok && len(written) <= 40 {
		return "number " + written
	}
	return "a number"
}

func sortedKeys(object map[string]any) []string {
	keys := make([]string, 0, len(object))
	for key := range object {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// Document writes fields as a Markdown table, nested blocks after their row,
// with dotted names.
func Document(fields []Field) string {
	var out strings.Builder
	out.WriteString("| field | type | default | meaning |\n|---|---|---|---|\n")
	document(&out, fields, "")
	return out.String()
}

func document(out *strings.Builder, fields []Field, path string) {
	for _, f := range fields {
		fallback := "-"
		switch {
		case f.Required:
			fallback = "required"
		case f.Default != nil:
			fallback = fmt.Sprintf("`%v`", f.Default)
		}
		fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", join(path, f.Name), f.Type, fallback, f.Doc)
		document(out, f.Fields, join(path, f.Name))
	}
}
