package placement

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/psgrid/psg"
)

// term is one constraint or affinity on nodes, read once and tried on many.
type term struct {
	left, right reference
	op          psg.Operator
	text        string // as the user wrote it
	pattern     *regexp.Regexp
	versions    versions
}

// canonical maps the spellings Nomad accepts to the operators psg names.
func canonical(op psg.Operator) psg.Operator {
	switch op {
	case "==", "is":
		return psg.Equal
	case "not":
		return psg.NotEqual
	case "set_contains_all":
		return psg.SetContains
	}
	return op
}

func compile(c psg.Constraint) term {
	t := term{
		left: parseReference(c.Left), right: parseReference(c.Right),
		op: canonical(c.Operator), text: constraintText(c),
	}
	if t.right.kind == refLiteral {
		switch t.op {
		case psg.Regexp:
			t.pattern = pattern(c.Right)
		case psg.Version, psg.Semver:
			t.versions = parseVersions(t.op, c.Right)
		}
	}
	return t
}

func constraintText(c psg.Constraint) string {
	switch {
	case c.Left == "" && c.Right == "":
		return string(c.Operator)
	case c.Right == "":
		return fmt.Sprintf("%s %s", c.Left, c.Operator)
	case c.Left == "":
		return fmt.Sprintf("%s %s", c.Operator, c.Right)
	}
	return fmt.Sprintf("%s %s %s", c.Left, c.Operator, c.Right)
}

// holds reports whether the constraint is met on a node. Of the operators only
// != and is_not_set are met where a side does not resolve; an unknown operator
// is met nowhere. distinct_hosts and distinct_property depend on placements
// and are judged elsewhere.
func (t *term) holds(n *psg.Node) bool {
	left, lok := t.left.on(n)
	right, rok := t.right.on(n)
	switch t.op {
	case psg.DistinctHosts, psg.DistinctProperty:
		return true
	case psg.NotEqual:
		return left != right
	case psg.IsSet:
		return lok
	case psg.IsNotSet:
		return !lok
	}
	if !lok || !rok {
		return false
	}
	switch t.op {
	case psg.Equal:
		return left == right
	case psg.Less, psg.LessEqual, psg.Greater, psg.GreaterEqual:
		ok, _ := order(t.op, left, right)
		return ok
	case psg.Version, psg.Semver:
		return inVersions(left, t.versionsFor(right))
	case psg.Regexp:
		re := t.patternFor(right)
		return re != nil && re.MatchString(left)
	case psg.SetContains:
		return containsAll(left, right)
	case psg.SetContainsAny:
		return containsAny(left, right)
	}
	return false
}

func (t *term) versionsFor(right string) versions {
	if t.right.kind == refLiteral {
		return t.versions
	}
	return parseVersions(t.op, right)
}

func (t *term) patternFor(right string) *regexp.Regexp {
	if t.right.kind == refLiteral {
		return t.pattern
	}
	return pattern(right)
}

// saw says what the constraint met with on a node where it does not hold.
func (t *term) saw(n *psg.Node) string {
	left, lok := t.left.on(n)
	right, rok := t.right.on(n)
	switch {
	case t.op == psg.Regexp && rok && t.patternFor(right) == nil:
		return ": not a regular expression"
	case (t.op == psg.Version || t.op == psg.Semver) && rok && t.versionsFor(right) == nil:
		return ": not a version constraint"
	case !knownOperator(t.op):
		return ": unknown operator"
	case !lok:
		return ": the left side is not set here"
	case !rok:
		return ": the right side is not set here"
	case ordering(t.op):
		_, how := order(t.op, left, right)
		return fmt.Sprintf(": %s against %s, %s", quote(left), quote(right), how)
	}
	return ": here it is " + quote(left)
}

func ordering(op psg.Operator) bool {
	switch op {
	case psg.Less, psg.LessEqual, psg.Greater, psg.GreaterEqual:
		return true
	}
	return false
}

func knownOperator(op psg.Operator) bool {
	switch op {
	case psg.Equal, psg.NotEqual, psg.Version, psg.Semver, psg.Regexp, psg.SetContains,
		psg.SetContainsAny, psg.IsSet, psg.IsNotSet, psg.DistinctHosts, psg.DistinctProperty:
		return true
	}
	return ordering(op)
}

// quote shortens what a node says of itself, so that one long attribute does
// not fill a refusal.
func quote(value string) string {
	const limit = 64
	if len(value) > limit {
		value = value[:limit] + "…"
	}
	return strconv.Quote(value)
}
