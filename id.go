package psg

import (
	"cmp"
	"net/url"
	"strings"
)

// NodeID identifies a node: Nomad's node UUID, or a Kubernetes node name.
type NodeID string

// AllocID identifies one allocation: Nomad's allocation UUID, or a Kubernetes
// pod UID.
type AllocID string

// DeviceID identifies one device instance on its node, such as a GPU UUID.
type DeviceID string

// TenantID names the owner of a workload, whose fair share its use counts
// against.
type TenantID string

// RequestID is the idempotency key of an Ask. A request repeated with the same
// ID gets the same answer. For a gate it is the allocation ID.
type RequestID string

// GangID groups the asks that are placed all together or not at all. Empty
// means no gang.
type GangID string

// Epoch counts leaders. Each new leader takes the next one before it decides
// anything, and a record of an older epoch is refused.
type Epoch uint64

// WorkloadID identifies a workload: one task group of one job in one
// namespace. Each part may hold any character, slashes and dots included.
type WorkloadID struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Group     string `json:"group"`
}

// String writes the ID as namespace/job/group, each part escaped as a URL path
// segment, so that ParseWorkloadID reads back exactly what was written.
func (id WorkloadID) String() string {
	return url.PathEscape(id.Namespace) + "/" + url.PathEscape(id.Job) + "/" + url.PathEscape(id.Group)
}

// ParseWorkloadID reads what String wrote and reports whether it is well formed.
func ParseWorkloadID(s string) (WorkloadID, bool) {
	parts := strings.Split(s, "/")
	if len(parts) != 3 {
		return WorkloadID{}, false
	}
	for i, part := range parts {
		plain, err := url.PathUnescape(part)
		if err != nil {
			return WorkloadID{}, false
		}
		parts[i] = plain
	}
	return WorkloadID{parts[0], parts[1], parts[2]}, true
}

// Compare orders IDs by namespace, job and group.
func (id WorkloadID) Compare(other WorkloadID) int {
	return cmp.Or(
		cmp.Compare(id.Namespace, other.Namespace),
		cmp.Compare(id.Job, other.Job),
		cmp.Compare(id.Group, other.Group),
	)
}
