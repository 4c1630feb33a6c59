package placement

import (
	"strings"

	"github.com/hashicorp/go-version"

	"github.com/psgrid/psg"
)

// semverBound is one bound of a semver constraint. It differs from go-version's
// own constraints as Nomad's semver operator does: prereleases are ordered by
// Semantic Versioning 2.0, versions must be well formed, and there is no "~>".
type semverBound struct {
	op    psg.Operator
	bound *version.Version
}

type semverBounds []semverBound

// parseSemver reads comma-separated bounds, or nil where one is malformed.
func parseSemver(text string) semverBounds {
	var list semverBounds
	for part := range strings.SplitSeq(text, ",") {
		op, rest := semverOperator(strings.TrimSpace(part))
		bound, err := version.NewSemver(strings.TrimSpace(rest))
		if err != nil {
			return nil
		}
		list = append(list, semverBound{op, bound})
	}
	return list
}

// semverOperator splits the operator off a bound; none means equal.
func semverOperator(text string) (psg.Operator, string) {
	for _, op := range []psg.Operator{
		psg.LessEqual, psg.GreaterEqual, psg.NotEqual, psg.Less, psg.Greater, psg.Equal,
	} {
		if rest, ok := strings.CutPrefix(text, string(op)); ok {
			return op, rest
		}
	}
	return psg.Equal, text
}

// Check reports whether a version satisfies every bound.
func (list semverBounds) Check(v *version.Version) bool {
	for _, b := range list {
		order := v.Compare(b.bound)
		ok := false
		switch b.op {
		case psg.Equal:
			ok = order == 0
		case psg.NotEqual:
			ok = order != 0
		default:
			ok = ordered(b.op, order, 0)
		}
		if !ok {
			return false
		}
	}
	return true
}
