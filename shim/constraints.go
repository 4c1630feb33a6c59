package shim

import (
	"regexp"
	"strconv"
	"strings"

	version "github.com/hashicorp/go-version"
	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// The hold constraint keeps a job blocked in Nomad, at no cost, until PSG has a
// plan for it: no node has this meta.
const (
	holdAttribute = "${meta.psg_hold}"
	holdValue     = "never"
)

func isHold(c *api.Constraint) bool {
	return c.LTarget == holdAttribute && c.RTarget == holdValue && operator(c.Operand) == psg.Equal
}

func heldBy(constraints []*api.Constraint) bool {
	for _, c := range constraints {
		if isHold(c) {
			return true
		}
	}
	return false
}

// operator maps Nomad's spellings onto one; an empty one is equality.
func operator(operand string) psg.Operator {
	switch operand {
	case "", "==", "is":
		return psg.Equal
	case "not":
		return psg.NotEqual
	case api.ConstraintSetContainsAll:
		return psg.SetContains
	}
	return psg.Operator(operand)
}

// constraints reads what must hold on a node. The hold constraint is left out:
// Workload.Held carries it.
func (t *translator) constraints(path string, constraints []*api.Constraint, scope psg.Scope) []psg.Constraint {
	var out []psg.Constraint
	for i, c := range constraints {
		if isHold(c) || offDistinctHosts(c) {
			continue
		}
		read := psg.Constraint{Left: c.LTarget, Operator: operator(c.Operand), Right: c.RTarget, Scope: scope}
		t.condition(elem(path, i), read)
		out = append(out, read)
	}
	return out
}

// offDistinctHosts reports a distinct_hosts that says false: Nomad takes that as
// no constraint.
func offDistinctHosts(c *api.Constraint) bool {
	if c.Operand != api.ConstraintDistinctHosts || c.RTarget == "" {
		return false
	}
	on, err := strconv.ParseBool(c.RTarget)
	return err == nil && !on
}

// condition checks a constraint as Nomad's server does at registration.
func (t *translator) condition(path string, c psg.Constraint) {
	right := field(path, "RTarget")
	needs := func() { t.require(c.Right != "", right, "operator %s needs a value", c.Operator) }
	switch c.Operator {
	case psg.Equal, psg.NotEqual, psg.Less, psg.LessEqual, psg.Greater, psg.GreaterEqual, psg.SetContains, psg.SetContainsAny:
		needs()
	case psg.Regexp:
		_, err := regexp.Compile(c.Right)
		t.require(err == nil, right, "not a regular expression: %v", err)
	case psg.Version:
		_, err := version.NewConstraint(c.Right)
		t.require(err == nil, right, "not a version constraint: %s", quote(c.Right))
	case psg.Semver:
		t.require(semverConstraint(c.Right), right, "not a semver constraint: %s", quote(c.Right))
	case psg.DistinctHosts:
		return
	case psg.DistinctProperty:
		if c.Right != "" {
			n, err := strconv.ParseUint(c.Right, 10, 64)
			t.require(err == nil && n > 0, right, "%s is not a count of 1 or more", quote(c.Right))
		}
	case psg.IsSet, psg.IsNotSet:
		t.require(c.Right == "", right, "operator %s takes no value", c.Operator)
	default:
		t.fail(field(path, "Operand"), "unknown operator %s", quote(string(c.Operator)))
	}
	t.require(c.Left != "", field(path, "LTarget"), "operator %s needs an attribute", quote(string(c.Operator)))
}

// semverConstraint reports whether every part of a comma-separated list is a
// comparison with a Semver 2.0 version. Unlike a version constraint it has no ~>.
func semverConstraint(list string) bool {
	for part := range strings.SplitSeq(list, ",") {
		bare := strings.TrimLeft(strings.TrimSpace(part), "<>=!")
		sign := strings.TrimSuffix(strings.TrimSpace(part), bare)
		switch sign {
		case "", "=", "!=", "<", "<=", ">", ">=":
		default:
			return false
		}
		if _, err := version.NewSemver(strings.TrimSpace(bare)); err != nil {
			return false
		}
	}
	return true
}

// affinities reads what attracts to a node or repels from it.
func (t *translator) affinities(path string, affinities []*api.Affinity, scope psg.Scope) []psg.Affinity {
	var out []psg.Affinity
	for i, a := range affinities {
		read := psg.Affinity{
			Constraint: psg.Constraint{Left: a.LTarget, Operator: operator(a.Operand), Right: a.RTarget, Scope: scope},
			Weight:     int(*a.Weight),
		}
		at := elem(path, i)
		switch read.Operator {
		case psg.IsSet, psg.IsNotSet, psg.DistinctHosts, psg.DistinctProperty:
			t.fail(field(at, "Operand"), "operator %s is for constraints only", read.Operator)
		default:
			t.condition(at, read.Constraint)
		}
		t.require(read.Weight != 0 && -100 <= read.Weight && read.Weight <= 100, field(at, "Weight"), "%d is not in -100..-1 or 1..100", read.Weight)
		out = append(out, read)
	}
	return out
}

// spreads reads how instances are to be distributed.
func (t *translator) spreads(path string, spreads []*api.Spread, scope psg.Scope) []psg.Spread {
	var out []psg.Spread
	for i, s := range spreads {
		at := elem(path, i)
		read := psg.Spread{Attribute: s.Attribute, Weight: int(*s.Weight), Scope: scope}
		t.require(s.Attribute != "", field(at, "Attribute"), "is empty")
		t.require(1 <= read.Weight && read.Weight <= 100, field(at, "Weight"), "%d is outside 1..100", read.Weight)
		seen, sum := map[string]bool{}, 0
		for j, target := range s.SpreadTarget {
			value := field(elem(field(at, "SpreadTarget"), j), "Value")
			t.require(!seen[target.Value], value, "%s stands twice", quote(target.Value))
			seen[target.Value] = true
			sum += int(target.Percent)
			read.Targets = append(read.Targets, psg.SpreadTarget{Value: target.Value, Percent: int(target.Percent)})
		}
		t.require(sum <= 100, field(at, "SpreadTarget"), "the percents add up to %d, more than 100", sum)
		out = append(out, read)
	}
	return out
}
