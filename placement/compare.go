package placement

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/psgrid/psg"
)

// Comparisons as Nomad makes them. Each returns the verdict; order says also
// by which reading of its sides it came about, because "1.10.0" > "1.9.0" is
// a surprise that an explanation must name.

// reading is how an ordering comparison understood its two sides.
type reading string

const (
	asIntegers reading = "compared as integers"
	asFloats   reading = "compared as floats"
	asText     reading = "compared as text"
)

// order compares two sides numerically where both are integers, then where
// both are floats, else lexically.
func order(op psg.Operator, left, right string) (bool, reading) {
	li, lerr := strconv.ParseInt(left, 10, 64)
	ri, rerr := strconv.ParseInt(right, 10, 64)
	if lerr == nil && rerr == nil {
		return ordered(op, li, ri), asIntegers
	}
	lf, lerr := strconv.ParseFloat(left, 64)
	rf, rerr := strconv.ParseFloat(right, 64)
	if lerr == nil && rerr == nil {
		return ordered(op, lf, rf), asFloats
	}
	return ordered(op, left, right), asText
}

// ordered applies one of the four ordering operators. NaN is in no order.
func ordered[T cmp.Ordered](op psg.Operator, left, right T) bool {
	switch op {
	case psg.Less:
		return left < right
	case psg.LessEqual:
		return left <= right
	case psg.Greater:
		return left > right
	case psg.GreaterEqual:
		return left >= right
	}
	return false
}

// pattern compiles a regular expression, or nil where it is no expression.
func pattern(text string) *regexp.Regexp {
	if len(text) > maxPattern {
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil
	}
	return re
}

// versions is a parsed right side of version or semver; nil matches nothing.
type versions interface{ Check(*version.Version) bool }

// parseVersions reads a comma-separated list of version constraints.
func parseVersions(op psg.Operator, text string) versions {
	if op == psg.Semver {
		if list := parseSemver(text); list != nil {
			return list
		}
		return nil
	}
	list, err := version.NewConstraint(text)
	if err != nil {
		return nil
	}
	return list
}

// inVersions reports whether a version lies within the constraints.
func inVersions(left string, allowed versions) bool {
	if allowed == nil {
		return false
	}
	v, err := version.NewVersion(left)
	return err == nil && allowed.Check(v)
}

// containsAll reports whether every element of the right list is in the left.
func containsAll(left, right string) bool {
	have := elements(left)
	for _, want := range elements(right) {
		if !slices.Contains(have, want) {
			return false
		}
	}
	return true
}

// containsAny reports whether some element of the right list is in the left.
func containsAny(left, right string) bool {
	have := elements(left)
	return slices.ContainsFunc(elements(right), func(want string) bool {
		return slices.Contains(have, want)
	})
}

// elements splits a comma-separated list; blanks around an element do not count.
func elements(list string) []string {
	parts := strings.Split(list, ",")
	for i, part := range parts {
		parts[i] = strings.TrimSpace(part)
	}
	return parts
}

// glob matches text against a pattern in which * stands for any run of
// characters, as datacenters are matched.
func glob(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == text
	}
	last := len(parts) - 1
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1:last] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}
