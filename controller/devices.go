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
	if known == nil || seen.Inventory == nil || c.inventories.have(known, seen.Inventory) {
		return nil, false
	}
	node, news := known.WithInventory(seen.Inventory.Devices)
	if !news {
		c.inventories.note(known, seen.Inventory)
		return nil, false
	}
	node.Telemetry, node.Projection = nil, nil // which the ledger does not keep
	return psg.NodeChanged{Node: node}, true
}

// inventories remembers which inventory a node's devices were last found to agree
// with, since both come again with each observation of each node. Neither changes
// once it is made, so that it is enough to see that they are the same ones.
type inventories map[psg.NodeID]agreement

type agreement struct {
	inventory *psg.Inventory
	first     *psg.Device // of the node's
}

func (i inventories) have(n *psg.Node, with *psg.Inventory) bool {
	return len(n.Devices) > 0 && i[n.ID] == agreement{with, &n.Devices[0]}
}

func (i *inventories) note(n *psg.Node, with *psg.Inventory) {
	if len(n.Devices) == 0 {
		delete(*i, n.ID)
		return
	}
	if *i == nil {
		*i = inventories{}
	}
	(*i)[n.ID] = agreement{with, &n.Devices[0]}
}
