package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var orderKinds = enum[psg.OrderKind, psgv1.OrderKind]{
	psgv1.OrderKind_ORDER_KIND_GRANT:    psg.Grant,
	psgv1.OrderKind_ORDER_KIND_WAIT:     psg.Wait,
	psgv1.OrderKind_ORDER_KIND_STEER:    psg.Steer,
	psgv1.OrderKind_ORDER_KIND_STOP:     psg.Stop,
	psgv1.OrderKind_ORDER_KIND_THROTTLE: psg.Throttle,
	psgv1.OrderKind_ORDER_KIND_FREEZE:   psg.Freeze,
	psgv1.OrderKind_ORDER_KIND_THAW:     psg.Thaw,
	psgv1.OrderKind_ORDER_KIND_EVICT:    psg.Evict,
	psgv1.OrderKind_ORDER_KIND_DRAIN:    psg.Drain,
	psgv1.OrderKind_ORDER_KIND_ENTRUST:  psg.Entrust,
}

// EncodeOrder writes one order.
func EncodeOrder(o psg.Order) ([]byte, error) {
	var c coder
	return marshal(&c, "order", putOrder(&c, o))
}

// DecodeOrder reads what EncodeOrder wrote.
func DecodeOrder(data []byte) (psg.Order, error) {
	return decode(data, "order", &psgv1.Order{}, getOrder)
}

func putOrder(c *coder, o psg.Order) *psgv1.Order {
	return &psgv1.Order{
		Kind:     orderKinds.put(c, "kind", o.Kind),
		Epoch:    uint64(o.Epoch),
		Sequence: o.Sequence,
		Ask:      string(o.Ask),
		Workload: putWorkloadID(o.Workload),
		Alloc:    string(o.Alloc),
		Node:     string(o.Node),
		Devices:  each(c, "devices", o.Devices, putDeviceShare),
		Limit:    putResources(c, "limit", o.Limit),
		Deadline: putDuration(o.Deadline),
		Refusal:  putOptional(c, "refusal", o.Refusal, putRefusal),
		Mandate:  putOptional(c, "mandate", o.Mandate, putMandate),
	}
}

func getOrder(c *coder, o *psgv1.Order) psg.Order {
	return psg.Order{
		Kind:     orderKinds.get(c, "kind", o.GetKind()),
		Epoch:    psg.Epoch(o.GetEpoch()),
		Sequence: o.GetSequence(),
		Ask:      psg.RequestID(o.GetAsk()),
		Workload: getWorkloadID(c, "workload", o.GetWorkload()),
		Alloc:    psg.AllocID(o.GetAlloc()),
		Node:     psg.NodeID(o.GetNode()),
		Devices:  each(c, "devices", o.GetDevices(), getDeviceShare),
		Limit:    getResources(c, "limit", o.GetLimit()),
		Deadline: getDuration(c, "deadline", o.GetDeadline()),
		Refusal:  getOptional(c, "refusal", o.GetRefusal(), getRefusal),
		Mandate:  getOptional(c, "mandate", o.GetMandate(), getMandate),
	}
}
