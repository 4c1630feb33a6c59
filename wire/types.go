package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var operators = enum[psg.Operator, psgv1.Operator]{
	psgv1.Operator_OPERATOR_EQUAL:             psg.Equal,
	psgv1.Operator_OPERATOR_NOT_EQUAL:         psg.NotEqual,
	psgv1.Operator_OPERATOR_LESS:              psg.Less,
	psgv1.Operator_OPERATOR_LESS_EQUAL:        psg.LessEqual,
	psgv1.Operator_OPERATOR_GREATER:           psg.Greater,
	psgv1.Operator_OPERATOR_GREATER_EQUAL:     psg.GreaterEqual,
	psgv1.Operator_OPERATOR_VERSION:           psg.Version,
	psgv1.Operator_OPERATOR_SEMVER:            psg.Semver,
	psgv1.Operator_OPERATOR_REGEXP:            psg.Regexp,
	psgv1.Operator_OPERATOR_SET_CONTAINS:      psg.SetContains,
	psgv1.Operator_OPERATOR_SET_CONTAINS_ANY:  psg.SetContainsAny,
	psgv1.Operator_OPERATOR_IS_SET:            psg.IsSet,
	psgv1.Operator_OPERATOR_IS_NOT_SET:        psg.IsNotSet,
	psgv1.Operator_OPERATOR_DISTINCT_HOSTS:    psg.DistinctHosts,
	psgv1.Operator_OPERATOR_DISTINCT_PROPERTY: psg.DistinctProperty,
}

var scopes = enum[psg.Scope, psgv1.Scope]{
	psgv1.Scope_SCOPE_JOB:   psg.JobScope,
	psgv1.Scope_SCOPE_GROUP: psg.GroupScope,
	psgv1.Scope_SCOPE_TASK:  psg.TaskScope,
}

func putWorkloadID(id psg.WorkloadID) *psgv1.WorkloadID {
	return &psgv1.WorkloadID{Namespace: id.Namespace, Job: id.Job, Group: id.Group}
}

func getWorkloadID(c *coder, field string, id *psgv1.WorkloadID) psg.WorkloadID {
	if id == nil {
		c.fail(field, "missing")
	}
	return psg.WorkloadID{Namespace: id.GetNamespace(), Job: id.GetJob(), Group: id.GetGroup()}
}

func putResources(c *coder, field string, r psg.Resources) *psgv1.Resources {
	if r == (psg.Resources{}) {
		return nil
	}
	if err := r.Validate(); err != nil {
		c.fail(field, "%v", err)
	}
	return &psgv1.Resources{
		CpuMhz:       r[psg.CPU],
		Cores:        r[psg.Cores],
		MemoryMb:     r[psg.Memory],
		MemoryMaxMb:  r[psg.MemoryMax],
		DiskMb:       r[psg.Disk],
		NetworkMbits: r[psg.Network],
		Iops:         r[psg.IOPS],
	}
}

func getResources(c *coder, field string, r *psgv1.Resources) psg.Resources {
	out := psg.Resources{
		psg.CPU:       r.GetCpuMhz(),
		psg.Cores:     r.GetCores(),
		psg.Memory:    r.GetMemoryMb(),
		psg.MemoryMax: r.GetMemoryMaxMb(),
		psg.Disk:      r.GetDiskMb(),
		psg.Network:   r.GetNetworkMbits(),
		psg.IOPS:      r.GetIops(),
	}
	if err := out.Validate(); err != nil {
		c.fail(field, "%v", err)
	}
	return out
}

func putReason(_ *coder, r psg.Reason) *psgv1.Reason {
	return &psgv1.Reason{Source: r.Source, Text: r.Text}
}

func getReason(_ *coder, r *psgv1.Reason) psg.Reason {
	return psg.Reason{Source: r.GetSource(), Text: r.GetText()}
}

func putConstraint(c *coder, in psg.Constraint) *psgv1.Constraint {
	return &psgv1.Constraint{
		Left:     in.Left,
		Operator: operators.put(c, "operator", in.Operator),
		Right:    in.Right,
		Scope:    scopes.put(c, "scope", in.Scope),
	}
}

func getConstraint(c *coder, in *psgv1.Constraint) psg.Constraint {
	return psg.Constraint{
		Left:     in.GetLeft(),
		Operator: operators.get(c, "operator", in.GetOperator()),
		Right:    in.GetRight(),
		Scope:    scopes.get(c, "scope", in.GetScope()),
	}
}

func putAffinity(c *coder, in psg.Affinity) *psgv1.Affinity {
	return &psgv1.Affinity{
		Constraint: put(c, "constraint", in.Constraint, putConstraint),
		Weight:     int64(in.Weight),
	}
}

func getAffinity(c *coder, in *psgv1.Affinity) psg.Affinity {
	return psg.Affinity{
		Constraint: get(c, "constraint", in.GetConstraint(), getConstraint),
		Weight:     getInt(c, "weight", in.GetWeight()),
	}
}

func putSpread(c *coder, in psg.Spread) *psgv1.Spread {
	return &psgv1.Spread{
		Attribute: in.Attribute,
		Weight:    int64(in.Weight),
		Targets:   each(c, "targets", in.Targets, putSpreadTarget),
		Scope:     scopes.put(c, "scope", in.Scope),
	}
}

func getSpread(c *coder, in *psgv1.Spread) psg.Spread {
	return psg.Spread{
		Attribute: in.GetAttribute(),
		Weight:    getInt(c, "weight", in.GetWeight()),
		Targets:   each(c, "targets", in.GetTargets(), getSpreadTarget),
		Scope:     scopes.get(c, "scope", in.GetScope()),
	}
}

func putSpreadTarget(_ *coder, in psg.SpreadTarget) *psgv1.SpreadTarget {
	return &psgv1.SpreadTarget{Value: in.Value, Percent: int64(in.Percent)}
}

func getSpreadTarget(c *coder, in *psgv1.SpreadTarget) psg.SpreadTarget {
	return psg.SpreadTarget{Value: in.GetValue(), Percent: getInt(c, "percent", in.GetPercent())}
}
