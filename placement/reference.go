package placement

import (
	"strings"

	"github.com/psgrid/psg"
)

// reference is one side of a constraint: a literal, or what one node calls by
// that name. An unknown reference resolves nowhere.
type reference struct {
	kind refKind
	text string // the literal, or the name behind ${attr., ${meta. or ${device.attr.
}

type refKind uint8

const (
	refLiteral refKind = iota
	refNodeID
	refNodeName
	refDatacenter
	refRegion
	refClass
	refPool
	refAttribute
	refMeta
	refDeviceVendor
	refDeviceType
	refDeviceModel
	refDeviceID
	refDeviceAttribute
	refUnknown
)

// parseReference reads one side of a constraint. Only what begins with "${" is
// a reference.
func parseReference(text string) reference {
	if !strings.HasPrefix(text, "${") {
		return reference{refLiteral, text}
	}
	switch text {
	case "${node.unique.id}":
		return reference{kind: refNodeID}
	case "${node.unique.name}":
		return reference{kind: refNodeName}
	case "${node.datacenter}":
		return reference{kind: refDatacenter}
	case "${node.region}":
		return reference{kind: refRegion}
	case "${node.class}":
		return reference{kind: refClass}
	case "${node.pool}":
		return reference{kind: refPool}
	case "${device.vendor}":
		return reference{kind: refDeviceVendor}
	case "${device.type}":
		return reference{kind: refDeviceType}
	case "${device.model}":
		return reference{kind: refDeviceModel}
	case "${device.ids}":
		return reference{kind: refDeviceID}
	}
	for _, named := range []struct {
		prefix string
		kind   refKind
	}{{"${attr.", refAttribute}, {"${meta.", refMeta}, {"${device.attr.", refDeviceAttribute}} {
		if name, ok := strings.CutPrefix(text, named.prefix); ok {
			return reference{named.kind, strings.TrimSuffix(name, "}")}
		}
	}
	return reference{kind: refUnknown}
}

// on resolves the reference on a node and reports whether the node has it.
func (r reference) on(n *psg.Node) (string, bool) {
	switch r.kind {
	case refLiteral:
		return r.text, true
	case refNodeID:
		return string(n.ID), true
	case refNodeName:
		return n.Name, true
	case refDatacenter:
		return n.Datacenter, true
	case refRegion:
		return n.Region, true
	case refClass:
		return n.Class, true
	case refPool:
		return n.Pool, true
	case refAttribute:
		value, ok := n.Attributes[r.text]
		return value, ok
	case refMeta:
		value, ok := n.Meta[r.text]
		return value, ok
	}
	return "", false
}
