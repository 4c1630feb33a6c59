package bus

import (
	"fmt"
	"strings"

	"github.com/psgrid/psg"
)

// The roles in whose name a client may come to the embedded server. An agent's is
// RoleAgent, a slash and its node.
const (
	RoleOperator   = "operator"   // everything, deleting streams included
	RoleController = "controller" // the ledger, the audit, the lease, orders
	RoleAuditor    = "auditor"    // reads ledger and audit
	RoleAgent      = "agent"      // of one node: its telemetry, its reports, its orders
	RoleDriver     = "driver"     // nothing: gates speak gRPC to a controller
	RoleTenant     = "tenant"     // nothing: tenants speak gRPC and REST
	// RoleLocal is whoever comes without credentials from the machine itself,
	// where that is allowed: an agent of any node, and an auditor.
	RoleLocal = "local"
)

// Permissions are the subjects that a role may publish and subscribe to, as NATS
// has them. No list means everything that is not denied, an empty one nothing.
type Permissions struct {
	Publish, DenyPublish, Subscribe []string
}

// losing is what can lose records or undo their order.
func losing() []string {
	return []string{
		"$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.MSG.DELETE.>",
		"$JS.API.STREAM.PURGE." + ledgerStream, "$JS.API.STREAM.PURGE." + auditStream,
		"$JS.API.STREAM.RESTORE.>", "$JS.API.ACCOUNT.>", "$JS.API.SERVER.>",
	}
}

// auditing is what reads ledger and audit.
func auditing() []string {
	var all []string
	for _, stream := range []string{auditStream, ledgerStream} {
		all = append(all, "$JS.API.STREAM.INFO."+stream, "$JS.API.DIRECT.GET."+stream, "$JS.API.STREAM.MSG.GET."+stream)
	}
	return all
}

// PermissionsOf returns what a name may, or why nobody has that name.
func PermissionsOf(name string) (Permissions, error) {
	role, node, ofNode := strings.Cut(name, "/")
	if ofNode != (role == RoleAgent) || ofNode && node == "" {
		return Permissions{}, fmt.Errorf("name %q: an agent's is agent/NODE, and no other has a node: %w", name, psg.ErrInvalid)
	}
	switch role {
	case RoleOperator:
		return Permissions{}, nil
	case RoleLocal:
		return Permissions{
			Publish:   append(auditing(), telemetrySubject+"*", reportSubject+"*"),
			Subscribe: []string{orderSubject + "*", resyncSubject, "_INBOX.>"},
		}, nil
	case RoleController:
		return Permissions{
			Publish: []string{
				ledgerSubject, auditSubject, orderSubject + "*", resyncSubject,
				"$KV." + leaseBucket + "." + leaseKey, "$O." + imageBucket + ".>", "$JS.API.>",
				"$JS.FC.OBJ_" + imageBucket + ".>", // that more of a large image may come
			},
			DenyPublish: losing(),
			Subscribe:   []string{telemetrySubject + "*", reportSubject + "*", "_INBOX.>"},
		}, nil
	case RoleAuditor:
		return Permissions{Publish: auditing(), Subscribe: []string{"_INBOX.>"}}, nil
	case RoleAgent:
		return Permissions{
			Publish:   []string{TelemetrySubject(psg.NodeID(node)), ReportSubject(psg.NodeID(node))},
			Subscribe: []string{OrderSubject(psg.NodeID(node)), resyncSubject},
		}, nil
	case RoleDriver, RoleTenant:
		return Permissions{Publish: []string{}, Subscribe: []string{}}, nil
	}
	return Permissions{}, fmt.Errorf("role %q is not operator, controller, auditor, agent, driver or tenant: %w", role, psg.ErrInvalid)
}
