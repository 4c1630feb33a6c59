package placement

import (
	"slices"

	"github.com/psgrid/psg"
)

// cardTerm is one constraint or affinity on devices. Both sides resolve on the
// card, and values may carry units.
type cardTerm struct {
	left, right reference
	op          psg.Operator
	text        string
}

func compileCard(c psg.Constraint) cardTerm {
	return cardTerm{parseReference(c.Left), parseReference(c.Right), canonical(c.Operator), constraintText(c)}
}

// onCard resolves a side on a device of a node.
func (r reference) onCard(d *psg.Device) (string, bool) {
	switch r.kind {
	case refLiteral:
		return r.text, true
	case refDeviceVendor:
		return d.Vendor, true
	case refDeviceType:
		return d.Type, true
	case refDeviceModel:
		return d.Model, true
	case refDeviceID:
		return string(d.ID), true
	case refDeviceAttribute:
		value, ok := d.Attributes[r.text]
		return value, ok
	}
	return "", false
}

// holds reports whether a device meets the constraint.
//
// ${device.ids} is each device's own ID here, where Nomad joins the IDs of all
// devices of one model: the sides of such a constraint are then compared as
// sets, so that `${device.ids} set_contains X` and `X,Y set_contains
// ${device.ids}` both pick exactly the named cards.
func (t *cardTerm) holds(d *psg.Device) bool {
	left, lok := t.left.onCard(d)
	right, rok := t.right.onCard(d)
	switch t.op {
	case psg.IsSet:
		return lok
	case psg.IsNotSet:
		return !lok
	case psg.NotEqual:
		return t.differ(left, right, lok, rok)
	}
	if !lok || !rok {
		return false
	}
	if t.left.kind == refDeviceID || t.right.kind == refDeviceID {
		return t.named(left, right)
	}
	switch t.op {
	case psg.Version, psg.Semver:
		return inVersions(left, parseVersions(t.op, right))
	case psg.Regexp, psg.SetContains, psg.SetContainsAny:
		return t.textual(left, right)
	}
	return t.ordered(left, right)
}

// textual applies the operators that only text has.
func (t *cardTerm) textual(left, right string) bool {
	if sideQuantity(t.left, left).kind != isText {
		return false
	}
	if t.op == psg.Regexp {
		re := pattern(right)
		return re != nil && re.MatchString(left)
	}
	if sideQuantity(t.right, right).kind != isText {
		return false
	}
	if t.op == psg.SetContains {
		return containsAll(left, right)
	}
	return containsAny(left, right)
}

// differ is !=: one missing side differs from any value, two missing sides do
// not differ, and values of different kinds are not comparable.
func (t *cardTerm) differ(left, right string, lok, rok bool) bool {
	if !lok || !rok {
		return lok != rok
	}
	order, ok := compareSides(t, left, right)
	return ok && order != 0
}

func (t *cardTerm) ordered(left, right string) bool {
	order, ok := compareSides(t, left, right)
	if !ok {
		return false
	}
	if t.op == psg.Equal {
		return order == 0
	}
	return ordered(t.op, order, 0)
}

// named compares a card's own ID with a list of IDs, on either side.
func (t *cardTerm) named(left, right string) bool {
	switch t.op {
	case psg.Equal:
		return left == right
	case psg.Regexp:
		re := pattern(right)
		return re != nil && re.MatchString(left)
	case psg.SetContains, psg.SetContainsAny:
		if t.left.kind == refDeviceID {
			return slices.Contains(elements(right), left)
		}
		return slices.Contains(elements(left), right)
	}
	return false
}

// compareSides reads a vendor, type, model or ID as text, whatever it looks
// like, and everything else as a quantity.
func compareSides(t *cardTerm, left, right string) (int, bool) {
	return compareQuantity(sideQuantity(t.left, left), sideQuantity(t.right, right))
}

func sideQuantity(r reference, value string) quantity {
	switch r.kind {
	case refDeviceVendor, refDeviceType, refDeviceModel, refDeviceID:
		return quantity{kind: isText, text: value}
	}
	return parseQuantity(value)
}
