package psg

// Operator compares the two sides of a constraint or affinity, exactly as
// Nomad does: numerically where both sides are integers, then where both are
// floats, else lexically.
type Operator string

// The operators, as Nomad writes them.
const (
	Equal            Operator = "="
	NotEqual         Operator = "!="
	Less             Operator = "<"
	LessEqual        Operator = "<="
	Greater          Operator = ">"
	GreaterEqual     Operator = ">="
	Version          Operator = "version"
	Semver           Operator = "semver"
	Regexp           Operator = "regexp"
	SetContains      Operator = "set_contains" // also set_contains_all
	SetContainsAny   Operator = "set_contains_any"
	IsSet            Operator = "is_set"
	IsNotSet         Operator = "is_not_set"
	DistinctHosts    Operator = "distinct_hosts"
	DistinctProperty Operator = "distinct_property"
)

// Constraint must hold on the node (or on the device, within a DeviceAsk).
// Left and Right are literals, or references that each node resolves for
// itself:
//
//	${node.unique.id} ${node.unique.name} ${node.datacenter} ${node.region}
//	${node.class} ${node.pool} ${attr.NAME} ${meta.NAME}
//	${device.vendor} ${device.type} ${device.model} ${device.ids} ${device.attr.NAME}
type Constraint struct {
	Left     string   `json:"left,omitempty"`
	Operator Operator `json:"operator"`
	Right    string   `json:"right,omitempty"`
	Scope    Scope    `json:"scope"`
}

// Affinity is a constraint that only attracts: it adds Weight, or repels when
// Weight is below zero.
type Affinity struct {
	Constraint
	Weight int `json:"weight"` // -100..100, never 0
}

// Scope is the level of the job at which a constraint or spread was written:
// distinct_hosts of a job counts all its groups.
type Scope string

// The scopes.
const (
	JobScope   Scope = "job"
	GroupScope Scope = "group"
	TaskScope  Scope = "task"
)

// Spread distributes instances over the values of one node attribute.
type Spread struct {
	Attribute string         `json:"attribute"` // a reference, as in Constraint
	Weight    int            `json:"weight"`    // 1..100
	Targets   []SpreadTarget `json:"targets,omitempty"`
	Scope     Scope          `json:"scope"`
}

// SpreadTarget is the share of instances wanted on one attribute value. Values
// without a target share what remains.
type SpreadTarget struct {
	Value   string `json:"value"`
	Percent int    `json:"percent"` // 0..100
}
