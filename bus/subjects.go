package bus

import (
	"fmt"
	"strings"

	"github.com/psgrid/psg"
)

// The subjects, all below one versioned root. A node's token is its ID with
// every byte that NATS gives a meaning escaped.
//
//	subject                   stream          published by   read by
//	psg.v1.ledger             PSG_LEDGER      the leader     controllers, checkers
//	psg.v1.audit              PSG_AUDIT       the leader     auditors
//	psg.v1.telemetry.NODE     PSG_TELEMETRY   NODE's agent   controllers
//	psg.v1.resync             none            controllers    agents: a full sample, please
//	psg.v1.order.NODE         none            the leader     NODE's agent
//	psg.v1.report.NODE        none            NODE's agent   controllers
const (
	ledgerSubject    = "psg.v1.ledger"
	auditSubject     = "psg.v1.audit"
	telemetrySubject = "psg.v1.telemetry."
	resyncSubject    = "psg.v1.resync"
	orderSubject     = "psg.v1.order."
	reportSubject    = "psg.v1.report."

	ledgerStream    = "PSG_LEDGER"
	auditStream     = "PSG_AUDIT"
	telemetryStream = "PSG_TELEMETRY"

	leaseBucket = "PSG_LEASE"
	imageBucket = "PSG_IMAGES"
)

// TelemetrySubject is where a node's agent publishes what it measures.
func TelemetrySubject(node psg.NodeID) string { return telemetrySubject + token(node) }

// OrderSubject is where the leader publishes orders to a node.
func OrderSubject(node psg.NodeID) string { return orderSubject + token(node) }

// ReportSubject is where a node's agent says how orders went.
func ReportSubject(node psg.NodeID) string { return reportSubject + token(node) }

// token makes one subject token of any node ID.
func token(node psg.NodeID) string {
	var out strings.Builder
	for _, b := range []byte(node) {
		switch {
		case b <= ' ', b >= 0x7f, strings.IndexByte(".*>%", b) >= 0:
			fmt.Fprintf(&out, "%%%02X", b)
		default:
			out.WriteByte(b)
		}
	}
	return out.String()
}
