package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

func putMandate(c *coder, m psg.Mandate) *psgv1.Mandate {
	return &psgv1.Mandate{CpuMhz: m.CPU, Charges: each(c, "charges", m.Charges, putCharge)}
}

func getMandate(c *coder, m *psgv1.Mandate) psg.Mandate {
	return psg.Mandate{CPU: m.GetCpuMhz(), Charges: each(c, "charges", m.GetCharges(), getCharge)}
}

func putCharge(c *coder, in psg.Charge) *psgv1.Charge {
	return &psgv1.Charge{
		Alloc:     string(in.Alloc),
		Workload:  putWorkloadID(in.Workload),
		Protected: in.Protected,
		Yields:    in.Yields,
		Floor:     putResources(c, "floor", in.Floor),
		Probe:     putOptional(c, "probe", in.Probe, putProbe),
	}
}

func getCharge(c *coder, in *psgv1.Charge) psg.Charge {
	return psg.Charge{
		Alloc:     psg.AllocID(in.GetAlloc()),
		Workload:  getWorkloadID(c, "workload", in.GetWorkload()),
		Protected: in.GetProtected(),
		Yields:    in.GetYields(),
		Floor:     getResources(c, "floor", in.GetFloor()),
		Probe:     getOptional(c, "probe", in.GetProbe(), getProbe),
	}
}

func putProbe(_ *coder, p psg.Probe) *psgv1.Probe {
	return &psgv1.Probe{
		Port: p.Port, Path: p.Path, Interval: putDuration(p.Interval), Objective: putDuration(p.Objective),
	}
}

func getProbe(c *coder, p *psgv1.Probe) psg.Probe {
	return psg.Probe{
		Port: p.GetPort(), Path: p.GetPath(),
		Interval:  getDuration(c, "interval", p.GetInterval()),
		Objective: getDuration(c, "objective", p.GetObjective()),
	}
}
