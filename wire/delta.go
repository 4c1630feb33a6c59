package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func putDelta(c *coder, delta psg.Delta) *psgv1.Delta {
	out := &psgv1.Delta{}
	switch d := delta.(type) {
	case psg.Led:
		out.Kind = &psgv1.Delta_Led{Led: &psgv1.Led{Epoch: uint64(d.Epoch), Leader: d.Leader}}
	case psg.NodeChanged:
		out.Kind = &psgv1.Delta_NodeChanged{NodeChanged: put(c, "node_changed", d, putNodeChanged)}
	case psg.NodeGone:
		out.Kind = &psgv1.Delta_NodeGone{NodeGone: &psgv1.NodeGone{Node: string(d.Node)}}
	case psg.NodeObserved:
		out.Kind = &psgv1.Delta_NodeObserved{NodeObserved: put(c, "node_observed", d, putNodeObserved)}
	case psg.WorkloadChanged:
		out.Kind = &psgv1.Delta_WorkloadChanged{WorkloadChanged: put(c, "workload_changed", d, putWorkloadChanged)}
	case psg.WorkloadGone:
		out.Kind = &psgv1.Delta_WorkloadGone{WorkloadGone: &psgv1.WorkloadGone{Workload: putWorkloadID(d.Workload)}}
	case psg.Asked:
		out.Kind = &psgv1.Delta_Asked{Asked: put(c, "asked", d, putAsked)}
	case psg.Refused:
		out.Kind = &psgv1.Delta_Refused{Refused: put(c, "refused", d, putRefused)}
	case psg.Placed:
		out.Kind = &psgv1.Delta_Placed{Placed: put(c, "placed", d, putPlaced)}
	case psg.Moved:
		out.Kind = &psgv1.Delta_Moved{Moved: put(c, "moved", d, putMoved)}
	case psg.Freed:
		out.Kind = &psgv1.Delta_Freed{Freed: put(c, "freed", d, putFreed)}
	case psg.BundleChanged:
		out.Kind = &psgv1.Delta_BundleChanged{BundleChanged: put(c, "bundle_changed", d, putBundleChanged)}
	default:
		c.fail("kind", "cannot encode %T", delta)
	}
	return out
}

func getDelta(c *coder, delta *psgv1.Delta) psg.Delta {
	switch k := delta.GetKind().(type) {
	case *psgv1.Delta_Led:
		return psg.Led{Epoch: psg.Epoch(k.Led.GetEpoch()), Leader: k.Led.GetLeader()}
	case *psgv1.Delta_NodeChanged:
		return get(c, "node_changed", k.NodeChanged, getNodeChanged)
	case *psgv1.Delta_NodeGone:
		return psg.NodeGone{Node: psg.NodeID(k.NodeGone.GetNode())}
	case *psgv1.Delta_NodeObserved:
		return get(c, "node_observed", k.NodeObserved, getNodeObserved)
	case *psgv1.Delta_WorkloadChanged:
		return get(c, "workload_changed", k.WorkloadChanged, getWorkloadChanged)
	case *psgv1.Delta_WorkloadGone:
		return psg.WorkloadGone{Workload: getWorkloadID(c, "workload_gone.workload", k.WorkloadGone.GetWorkload())}
	case *psgv1.Delta_Asked:
		return get(c, "asked", k.Asked, getAsked)
	case *psgv1.Delta_Refused:
		return get(c, "refused", k.Refused, getRefused)
	case *psgv1.Delta_Placed:
		return get(c, "placed", k.Placed, getPlaced)
	case *psgv1.Delta_Moved:
		return get(c, "moved", k.Moved, getMoved)
	case *psgv1.Delta_Freed:
		return get(c, "freed", k.Freed, getFreed)
	case *psgv1.Delta_BundleChanged:
		return get(c, "bundle_changed", k.BundleChanged, getBundleChanged)
	}
	c.fail("kind", "missing or unknown: written by a newer version")
	return nil
}

func putNodeChanged(c *coder, d psg.NodeChanged) *psgv1.NodeChanged {
	return &psgv1.NodeChanged{Node: put(c, "node", d.Node, putNode)}
}

func getNodeChanged(c *coder, d *psgv1.NodeChanged) psg.NodeChanged {
	return psg.NodeChanged{Node: get(c, "node", d.GetNode(), getNode)}
}

func putNodeObserved(c *coder, d psg.NodeObserved) *psgv1.NodeObserved {
	return &psgv1.NodeObserved{
		Node:       string(d.Node),
		Telemetry:  put(c, "telemetry", d.Telemetry, putTelemetry),
		Projection: putOptional(c, "projection", d.Projection, putProjection),
		Inventory:  putOptional(c, "inventory", d.Inventory, putInventory),
	}
}

func getNodeObserved(c *coder, d *psgv1.NodeObserved) psg.NodeObserved {
	return psg.NodeObserved{
		Node:       psg.NodeID(d.GetNode()),
		Telemetry:  get(c, "telemetry", d.GetTelemetry(), getTelemetry),
		Projection: getOptional(c, "projection", d.GetProjection(), getProjection),
		Inventory:  getOptional(c, "inventory", d.GetInventory(), getInventory),
	}
}

func putWorkloadChanged(c *coder, d psg.WorkloadChanged) *psgv1.WorkloadChanged {
	return &psgv1.WorkloadChanged{Workload: put(c, "workload", d.Workload, putWorkload)}
}

func getWorkloadChanged(c *coder, d *psgv1.WorkloadChanged) psg.WorkloadChanged {
	return psg.WorkloadChanged{Workload: get(c, "workload", d.GetWorkload(), getWorkload)}
}

func putAsked(c *coder, d psg.Asked) *psgv1.Asked {
	return &psgv1.Asked{Ask: put(c, "ask", d.Ask, putAsk)}
}

func getAsked(c *coder, d *psgv1.Asked) psg.Asked {
	return psg.Asked{Ask: get(c, "ask", d.GetAsk(), getAsk)}
}

func putRefused(c *coder, d psg.Refused) *psgv1.Refused {
	return &psgv1.Refused{Refusal: put(c, "refusal", d.Refusal, putRefusal), At: putTime(c, "at", d.At)}
}

func getRefused(c *coder, d *psgv1.Refused) psg.Refused {
	return psg.Refused{Refusal: get(c, "refusal", d.GetRefusal(), getRefusal), At: getTime(c, "at", d.GetAt())}
}

func putPlaced(c *coder, d psg.Placed) *psgv1.Placed {
	return &psgv1.Placed{Placement: put(c, "placement", d.Placement, putPlacement)}
}

func getPlaced(c *coder, d *psgv1.Placed) psg.Placed {
	return psg.Placed{Placement: get(c, "placement", d.GetPlacement(), getPlacement)}
}

func putMoved(c *coder, d psg.Moved) *psgv1.Moved {
	return &psgv1.Moved{Ask: string(d.Ask), State: states.put(c, "state", d.State), Reason: d.Reason, At: putTime(c, "at", d.At)}
}

func getMoved(c *coder, d *psgv1.Moved) psg.Moved {
	return psg.Moved{
		Ask:    psg.RequestID(d.GetAsk()),
		State:  states.get(c, "state", d.GetState()),
		Reason: d.GetReason(),
		At:     getTime(c, "at", d.GetAt()),
	}
}

func putFreed(c *coder, d psg.Freed) *psgv1.Freed {
	return &psgv1.Freed{
		Ask:    string(d.Ask),
		State:  states.put(c, "state", d.State),
		Reason: d.Reason,
		At:     putTime(c, "at", d.At),
	}
}

func getFreed(c *coder, d *psgv1.Freed) psg.Freed {
	return psg.Freed{
		Ask:    psg.RequestID(d.GetAsk()),
		State:  states.get(c, "state", d.GetState()),
		Reason: d.GetReason(),
		At:     getTime(c, "at", d.GetAt()),
	}
}

func putBundleChanged(c *coder, d psg.BundleChanged) *psgv1.BundleChanged {
	return &psgv1.BundleChanged{Bundle: putBundle(c, d.Bundle), At: putTime(c, "at", d.At)}
}

func getBundleChanged(c *coder, d *psgv1.BundleChanged) psg.BundleChanged {
	return psg.BundleChanged{Bundle: getBundle(c, d.GetBundle()), At: getTime(c, "at", d.GetAt())}
}
