package hclspec

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Type is what a field holds.
type Type string

// The types. A duration is written as a string such as "90s"; a number is a
// whole one.
const (
	String   Type = "string"
	Number   Type = "number"
	Bool     Type = "bool"
	List     Type = "list(string)"
	Map      Type = "map(string)"
	Duration Type = "duration"
	Block    Type = "block" // a nested object, written as an HCL block
)

// Field declares one field of an object, once: its schema for Nomad, how it is
// decoded and what the documentation says all come from here. Make one with
// the functions that name its target, such as StringField.
type Field struct {
	Name     string
	Type     Type
	Required bool
	// Default is what a missing field decodes to: a string (also for Duration),
	// an int64, a bool, or nil for the zero value.
	Default any
	Doc     string  // one sentence for people
	Fields  []Field // of a Block

	set func(value any) // stores a value of the Go type that Type decodes to
}

// FieldError is one thing wrong with one field.
type FieldError struct {
	Path    string // as written: "gpu.count"
	Problem string // "expected a number, got bool true"
}

// Error is the path and the problem.
func (e *FieldError) Error() string { return e.Path + ": " + e.Problem }

// Errors is everything wrong with one object, in the order of its fields, the
// unknown ones last by name.
type Errors []*FieldError

// Error joins all problems into one line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "; ")
}

// err is e as an error: nil when nothing is wrong.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

// decode fills the targets of fields from an object. What is unknown, missing
// or ill-typed is an error, and a null counts as missing.
func decode(fields []Field, object map[string]any, path string) Errors {
	var errs Errors
	for _, f := range fields {
		at := join(path, f.Name)
		value := object[f.Name]
		if f.missing(value) {
			if f.Required {
				errs = append(errs, &FieldError{at, "is required"})
			}
			value = f.Default
		}
		if value != nil {
			errs = append(errs, f.decode(value, at)...)
		}
	}
	for _, name := range unknown(fields, object) {
		problem := "unknown field"
		if near := nearest(name, fields); near != "" {
			problem = fmt.Sprintf("unknown field; did you mean %q?", near)
		}
		errs = append(errs, &FieldError{join(path, name), problem})
	}
	return errs
}

// missing reports whether a value stands for no value: null, or a block that
// was written no times.
func (f Field) missing(value any) bool {
	if f.Type == Block || f.Type == Map {
		switch v := value.(type) {
		case []any:
			return len(v) == 0
		case []map[string]any:
			return len(v) == 0
		}
	}
	return value == nil
}

func (f Field) decode(value any, at string) Errors {
	if f.Type == Block {
		nested, err := blockOf(value)
		if err != nil {
			return Errors{{at, err.Error()}}
		}
		f.set(nil)
		return decode(f.Fields, nested, at)
	}
	decoded, err := convert(f.Type, value)
	if err != nil {
		return Errors{{at, err.Error()}}
	}
	f.set(decoded)
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// unknown lists the keys of object that no field declares, sorted.
func unknown(fields []Field, object map[string]any) []string {
	var names []string
	for name := range object {
		if !slices.ContainsFunc(fields, func(f Field) bool { return f.Name == name }) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// nearest is the field name closest to a misspelt one, or "" when none is
// close: about a third of the letters may differ.
func nearest(name string, fields []Field) string {
	best, bestDistance := "", max(1, (min(len(name), 24)+1)/3)+1
	for _, f := range fields {
		if d := distance(strings.ToLower(name), f.Name); d < bestDistance {
			best, bestDistance = f.Name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two names. Long ones are cut: they
// are near nothing.
func distance(a, b string) int {
	a, b = a[:min(len(a), 64)], b[:min(len(b), 64)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
