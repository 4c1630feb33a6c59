package wire

import (
	"fmt"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// AskToProto converts an ask.
func AskToProto(a psg.Ask) (*psgv1.Ask, error) { return convert(a, putAsk) }

// AskFromProto converts an ask back; a nil one is missing.
func AskFromProto(a *psgv1.Ask) (psg.Ask, error) { return convertPart(a, "ask", getAsk) }

// OrderToProto converts an order.
func OrderToProto(o psg.Order) (*psgv1.Order, error) { return convert(o, putOrder) }

// OrderFromProto converts an order back; a nil one is missing.
func OrderFromProto(o *psgv1.Order) (psg.Order, error) { return convertPart(o, "order", getOrder) }

// PlacementToProto converts a placement.
func PlacementToProto(p psg.Placement) (*psgv1.Placement, error) { return convert(p, putPlacement) }

// PlacementFromProto converts a placement back; a nil one is missing.
func PlacementFromProto(p *psgv1.Placement) (psg.Placement, error) {
	return convertPart(p, "placement", getPlacement)
}

// RefusalToProto converts a refusal.
func RefusalToProto(r psg.Refusal) (*psgv1.Refusal, error) { return convert(r, putRefusal) }

// RefusalFromProto converts a refusal back; a nil one is missing.
func RefusalFromProto(r *psgv1.Refusal) (psg.Refusal, error) {
	return convertPart(r, "refusal", getRefusal)
}

// ResourcesToProto converts an amount; nothing is nil.
func ResourcesToProto(r psg.Resources) (*psgv1.Resources, error) {
	var c coder
	return finish(&c, putResources(&c, "resources", r))
}

// ResourcesFromProto converts an amount back; nil is nothing.
func ResourcesFromProto(r *psgv1.Resources) (psg.Resources, error) {
	var c coder
	return finish(&c, getResources(&c, "resources", r))
}

// WorkloadIDToProto converts a workload's ID.
func WorkloadIDToProto(id psg.WorkloadID) *psgv1.WorkloadID { return putWorkloadID(id) }

// WorkloadIDFromProto converts a workload's ID back; nil is the empty ID.
func WorkloadIDFromProto(id *psgv1.WorkloadID) psg.WorkloadID {
	return psg.WorkloadID{Namespace: id.GetNamespace(), Job: id.GetJob(), Group: id.GetGroup()}
}

// Each applies one of the conversions above to a list. An error names the index.
func Each[A, B any](in []A, convert func(A) (B, error)) ([]B, error) {
	if len(in) == 0 {
		return nil, nil
	}
	out := make([]B, len(in))
	for i, item := range in {
		var err error
		if out[i], err = convert(item); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return out, nil
}

func convert[A, B any](in A, f func(*coder, A) B) (B, error) {
	var c coder
	return finish(&c, f(&c, in))
}

func convertPart[A, B any](in *A, field string, f func(*coder, *A) B) (B, error) {
	var c coder
	return finish(&c, get(&c, field, in, f))
}
