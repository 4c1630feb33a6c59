package psg

// Tenant is an owner of workloads with a share of the cluster.
type Tenant struct {
	ID        TenantID         `json:"id"`
	Weight    int              `json:"weight"`    // of its fair share; at least 1
	Guarantee map[string]int64 `json:"guarantee"` // by dimension name, and "milli_gpu"
}
