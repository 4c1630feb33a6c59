package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var states = enum[psg.State, psgv1.State]{
	psgv1.State_STATE_SUBMITTED: psg.Submitted,
	psgv1.State_STATE_DENIED:    psg.Denied,
	psgv1.State_STATE_QUEUED:    psg.Queued,
	psgv1.State_STATE_RESERVED:  psg.Reserved,
	psgv1.State_STATE_STEERED:   psg.Steered,
	psgv1.State_STATE_GATED:     psg.Gated,
	psgv1.State_STATE_ELSEWHERE: psg.Elsewhere,
	psgv1.State_STATE_GRANTED:   psg.Granted,
	psgv1.State_STATE_RUNNING:   psg.Running,
	psgv1.State_STATE_MOVING:    psg.Moving,
	psgv1.State_STATE_LOST:      psg.Lost,
	psgv1.State_STATE_RELEASED:  psg.Released,
	psgv1.State_STATE_ENDING:    psg.Ending,
}

func putAsk(c *coder, a psg.Ask) *psgv1.Ask {
	return &psgv1.Ask{
		Id:       string(a.ID),
		Workload: putWorkloadID(a.Workload),
		Alloc:    string(a.Alloc),
		Node:     string(a.Node),
		At:       putTime(c, "at", a.At),
		Hold:     putDuration(a.Hold),
		Started:  a.Started,
	}
}

func getAsk(c *coder, a *psgv1.Ask) psg.Ask {
	return psg.Ask{
		ID:       psg.RequestID(a.GetId()),
		Workload: getWorkloadID(c, "workload", a.GetWorkload()),
		Alloc:    psg.AllocID(a.GetAlloc()),
		Node:     psg.NodeID(a.GetNode()),
		At:       getTime(c, "at", a.GetAt()),
		Hold:     getDuration(c, "hold", a.GetHold()),
		Started:  a.GetStarted(),
	}
}

func putPlacement(c *coder, p psg.Placement) *psgv1.Placement {
	return &psgv1.Placement{
		Ask:     put(c, "ask", p.Ask, putAsk),
		Node:    string(p.Node),
		State:   states.put(c, "state", p.State),
		Request: putResources(c, "request", p.Request),
		Devices: each(c, "devices", p.Devices, putDeviceShare),
		Ports:   each(c, "ports", p.Ports, putPortShare),
		Expires: putTime(c, "expires", p.Expires),
		Score:   each(c, "score", p.Score, putScorePart),
		Since:   putTime(c, "since", p.Since),
		Victims: putIDs(p.Victims),
		Audit:   each(c, "audit", p.Audit, putReason),
	}
}

func getPlacement(c *coder, p *psgv1.Placement) psg.Placement {
	return psg.Placement{
		Ask:     get(c, "ask", p.GetAsk(), getAsk),
		Node:    psg.NodeID(p.GetNode()),
		State:   states.get(c, "state", p.GetState()),
		Request: getResources(c, "request", p.GetRequest()),
		Devices: each(c, "devices", p.GetDevices(), getDeviceShare),
		Ports:   each(c, "ports", p.GetPorts(), getPortShare),
		Expires: getTime(c, "expires", p.GetExpires()),
		Score:   each(c, "score", p.GetScore(), getScorePart),
		Since:   getTime(c, "since", p.GetSince()),
		Victims: getIDs(p.GetVictims()),
		Audit:   each(c, "audit", p.GetAudit(), getReason),
	}
}

func putDeviceShare(_ *coder, d psg.DeviceShare) *psgv1.DeviceShare {
	return &psgv1.DeviceShare{
		Device:   string(d.Device),
		Ask:      int64(d.Ask),
		MilliGpu: d.MilliGPU,
		MemoryMb: d.MemoryMB,
		Profile:  d.Profile,
		Slot:     int64(d.Slot),
	}
}

func getDeviceShare(c *coder, d *psgv1.DeviceShare) psg.DeviceShare {
	return psg.DeviceShare{
		Device:   psg.DeviceID(d.GetDevice()),
		Ask:      getInt(c, "ask", d.GetAsk()),
		MilliGPU: d.GetMilliGpu(),
		MemoryMB: d.GetMemoryMb(),
		Profile:  d.GetProfile(),
		Slot:     getInt(c, "slot", d.GetSlot()),
	}
}

func putPortShare(_ *coder, p psg.PortShare) *psgv1.PortShare {
	return &psgv1.PortShare{Label: p.Label, Port: int64(p.Port), Host: p.Host}
}

func getPortShare(c *coder, p *psgv1.PortShare) psg.PortShare {
	return psg.PortShare{Label: p.GetLabel(), Port: getInt(c, "port", p.GetPort()), Host: p.GetHost()}
}

func putScorePart(_ *coder, s psg.ScorePart) *psgv1.ScorePart {
	return &psgv1.ScorePart{Name: s.Name, Points: s.Points}
}

func getScorePart(_ *coder, s *psgv1.ScorePart) psg.ScorePart {
	return psg.ScorePart{Name: s.GetName(), Points: s.GetPoints()}
}

func putRefusal(c *coder, r psg.Refusal) *psgv1.Refusal {
	return &psgv1.Refusal{
		Ask:      string(r.Ask),
		State:    states.put(c, "state", r.State),
		Node:     string(r.Node),
		Summary:  r.Summary,
		Excluded: each(c, "excluded", r.Excluded, putExclusion),
		Nearest:  each(c, "nearest", r.Nearest, putNearMiss),
		Remedies: each(c, "remedies", r.Remedies, putRemedy),
	}
}

func getRefusal(c *coder, r *psgv1.Refusal) psg.Refusal {
	return psg.Refusal{
		Ask:      psg.RequestID(r.GetAsk()),
		State:    states.get(c, "state", r.GetState()),
		Node:     psg.NodeID(r.GetNode()),
		Summary:  r.GetSummary(),
		Excluded: each(c, "excluded", r.GetExcluded(), getExclusion),
		Nearest:  each(c, "nearest", r.GetNearest(), getNearMiss),
		Remedies: each(c, "remedies", r.GetRemedies(), getRemedy),
	}
}

func putExclusion(c *coder, e psg.Exclusion) *psgv1.Exclusion {
	return &psgv1.Exclusion{Reason: put(c, "reason", e.Reason, putReason), Nodes: int64(e.Nodes)}
}

func getExclusion(c *coder, e *psgv1.Exclusion) psg.Exclusion {
	return psg.Exclusion{
		Reason: get(c, "reason", e.GetReason(), getReason),
		Nodes:  getInt(c, "nodes", e.GetNodes()),
	}
}

func putNearMiss(c *coder, m psg.NearMiss) *psgv1.NearMiss {
	return &psgv1.NearMiss{Node: string(m.Node), Missing: each(c, "missing", m.Missing, putReason)}
}

func getNearMiss(c *coder, m *psgv1.NearMiss) psg.NearMiss {
	return psg.NearMiss{Node: psg.NodeID(m.GetNode()), Missing: each(c, "missing", m.GetMissing(), getReason)}
}
