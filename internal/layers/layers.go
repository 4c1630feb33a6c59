// Package layers is the table of who may import whom inside this module, and
// the check that holds the sources to it. Imports point down: a package may
// import what its row names and nothing else of ours. A new edge is a new row,
// with its reason beside it.
package layers

// Allowed maps each package, by its path in the module ("" is the root), to
// the packages of the module it may import. A package stands for the folders
// below it, unless they have a row of their own. Tests may import more: they
// join what cmd joins.
var Allowed = map[string][]string{
	"":          {}, // the nouns: the standard library only
	"placement": {""},
	"ledger":    {""},
	"hclspec":   {""},
	"policies":  {"", "hclspec"},
	"wire":      {""},
	"telemetry": {""}, // what an agent and its readers agree on: both sides use it
	"bus":       {"", "wire", "internal/flood"},
	"rpc":       {"", "wire"},
	"shim":      {"", "hclspec"},
	"kube":      {""},
	"agent":     {"", "telemetry", "agent/hand", "agent/heal", "internal/flood"},
	"driver":    {"", "hclspec"},
	"controller": {
		"", "placement", "ledger", "internal/flood",
	},
	"history": {""},
	"web":     {""},
	"sim":     {"", "placement", "ledger", "policies", "controller"}, // runs the real cycle on virtual time

	"agent/hand":    {},            // writes control groups; knows no orders
	"agent/heal":    {""},          // decides who is to blame; pure
	"agent/gpu":     {"", "agent"}, // sources: each puts what the agent takes
	"agent/scrape":  {"", "agent"},
	"agent/sensor":  {"", "agent"},
	"bus/server":    {"bus/credentials"}, // the embedded server: apart, so that agents do not carry it
	"driver/plugin": {"", "hclspec", "driver"},
	"driver/host":   {"", "hclspec", "driver/plugin"}, // speaks the same wire protocol from the other end

	"bus/credentials": {}, // what its clients show: the server checks it, cmd/psg issues it

	// cmd joins what never imports one another.
	"cmd/psg": {
		"", "placement", "ledger", "hclspec", "policies", "wire", "bus", "bus/server", "bus/credentials", "rpc", "shim", "kube",
		"controller", "history", "web", "sim", "driver/host", "driver", "telemetry",
		"examples", "policies/library", "internal/flood", "internal/heap",
	},
	"cmd/psg-agent":        {"", "hclspec", "wire", "bus", "rpc", "agent", "agent/gpu", "agent/scrape", "agent/sensor", "telemetry"},
	"cmd/nomad-driver-psg": {"", "hclspec", "wire", "rpc", "driver", "driver/plugin"},

	"examples":         {}, // job files, embedded for psg dev
	"policies/library": {}, // bundles, embedded for psg dev
	"internal/layers":  {},
	"internal/flood":   {}, // which lines of what others send are logged: both ends of orders and the bus ask it
	"internal/heap":    {}, // how much garbage a controller makes before it is collected
	"e2e":              {""},
	"e2e/cards":        {"driver/plugin"}, // a Nomad plugin too: the handshake and the base protocol
}

// Standard names the packages that may import nothing but the standard
// library and this module.
var Standard = []string{"", "ledger", "internal/layers"}
