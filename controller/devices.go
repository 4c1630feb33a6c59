package controller

import "github.com/psgrid/psg"

// joined adds to what a watcher says of a node what its agent has found there: the
// orchestrator does not know of it.
func (c *Controller) joined(d psg.Delta) psg.Delta {
	changed, ok := d.(psg.NodeChanged)
	if !ok {
		return d
	}
	if known := c.state.Node(changed.Node.ID); known != nil {
		changed.Node = changed.Node.Keeping(known)
	}
	return changed
}

// found is the change of a node that its agent's inventory is, if it is one. What
// an agent finds on a node that nobody knows waits for the node: it comes again
// with each observation.
func (c *Controller) found(seen psg.NodeObserved) (psg.Delta, bool) {
	known := c.state.Node(seen.Node)
	if known == nil || seen.Inventory == nil {
		return nil, false
	}
	node, news := known.WithInventory(seen.Inventory.Devices)
	if !news {
		return nil, false
	}
	node.Telemetry, node.Projection = nil, nil // which the ledger does not keep
	return psg.NodeChanged{Node: node}, true
}
