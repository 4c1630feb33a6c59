package wire

import (
	"math"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// ReservationToProto converts a reservation to the request that makes it.
func ReservationToProto(r psg.Reservation) (*psgv1.ReserveResourcesRequest, error) {
	return convert(r, putReservation)
}

// ReservationFromProto converts a request back. It does not Validate it.
func ReservationFromProto(r *psgv1.ReserveResourcesRequest) (psg.Reservation, error) {
	return convertPart(r, "reservation", getReservation)
}

func putReservation(c *coder, r psg.Reservation) *psgv1.ReserveResourcesRequest {
	if r.Count < 0 || r.Count > math.MaxUint32 {
		c.fail("count", "%d is outside 0..%d", r.Count, uint32(math.MaxUint32))
	}
	return &psgv1.ReserveResourcesRequest{
		RequestId: string(r.ID),
		Workload:  putWorkloadID(r.Workload),
		Count:     uint32(r.Count),
		Node:      string(r.Node),
		Hold:      putDuration(r.Hold),
		Alloc:     string(r.Alloc),
		Request:   putResources(c, "request", r.Request),
		Release:   r.Release,
	}
}

// getReservation allows an absent workload: a release or a resize needs none.
func getReservation(c *coder, r *psgv1.ReserveResourcesRequest) psg.Reservation {
	return psg.Reservation{
		ID:       psg.RequestID(r.GetRequestId()),
		Workload: WorkloadIDFromProto(r.GetWorkload()),
		Count:    getInt(c, "count", int64(r.GetCount())),
		Node:     psg.NodeID(r.GetNode()),
		Hold:     getDuration(c, "hold", r.GetHold()),
		Alloc:    psg.AllocID(r.GetAlloc()),
		Request:  getResources(c, "request", r.GetRequest()),
		Release:  r.GetRelease(),
	}
}
