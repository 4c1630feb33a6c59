package psg

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Dimension names one divisible resource. Devices and ports are not
// dimensions: they are held by identity.
type Dimension uint8

// The dimensions, each with its unit.
const (
	CPU       Dimension = iota // MHz
	Cores                      // whole cores reserved for one task
	Memory                     // MiB, guaranteed
	MemoryMax                  // MiB, the ceiling under memory oversubscription; at least Memory
	Disk                       // MiB of ephemeral disk
	Network                    // Mbit/s
	IOPS                       // operations per second

	Dimensions = int(iota) // how many there are
)

var dimensionNames = [Dimensions]string{
	"cpu_mhz", "cores", "memory_mb", "memory_max_mb", "disk_mb", "network_mbits", "iops",
}

// String is the dimension's name with its unit, as it stands in JSON, in Rego
// input and in reasons: "cpu_mhz".
func (d Dimension) String() string { return dimensionNames[d] }

// ParseDimension finds a dimension by the name String gives it.
func ParseDimension(name string) (Dimension, bool) {
	for d, known := range dimensionNames {
		if known == name {
			return Dimension(d), true
		}
	}
	return 0, false
}

// MaxQuantity is the largest amount of one dimension that a workload may ask for
// or a node may offer: sums of a million of them stay far from overflow.
const MaxQuantity = 1 << 40

// Resources is an amount of every dimension. The zero value is nothing.
type Resources [Dimensions]int64

// Add returns r + s, dimension by dimension.
func (r Resources) Add(s Resources) Resources {
	for d := range r {
		r[d] += s[d]
	}
	return r
}

// Sub returns r - s, dimension by dimension; it may go below zero.
func (r Resources) Sub(s Resources) Resources {
	for d := range r {
		r[d] -= s[d]
	}
	return r
}

// Max returns the larger of r and s in each dimension.
func (r Resources) Max(s Resources) Resources {
	for d := range r {
		r[d] = max(r[d], s[d])
	}
	return r
}

// Fits reports whether r is at most free in every dimension.
func (r Resources) Fits(free Resources) bool {
	for d := range r {
		if r[d] > free[d] {
			return false
		}
	}
	return true
}

// Shortfall returns, per dimension, how much of r free cannot give: zero where
// it fits.
func (r Resources) Shortfall(free Resources) Resources {
	var short Resources
	for d := range r {
		short[d] = max(0, r[d]-max(0, free[d]))
	}
	return short
}

// Validate reports the first dimension that is negative or above MaxQuantity.
func (r Resources) Validate() error {
	for d, amount := range r {
		if amount < 0 || amount > MaxQuantity {
			return fmt.Errorf("%s %d is outside 0..%d", Dimension(d), amount, int64(MaxQuantity))
		}
	}
	return nil
}

// String lists the dimensions that are not zero: "cpu_mhz=500 memory_mb=256".
func (r Resources) String() string {
	var parts []string
	for d, amount := range r {
		if amount != 0 {
			parts = append(parts, fmt.Sprintf("%s=%d", Dimension(d), amount))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, " ")
}

// MarshalJSON writes an object from dimension names to amounts, all of them,
// in the order of the constants.
func (r Resources) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for d, amount := range r {
		if d > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, "%q:%d", Dimension(d), amount)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads what MarshalJSON writes; a missing dimension is zero and
// an unknown one an error.
func (r *Resources) UnmarshalJSON(data []byte) error {
	var amounts map[string]int64
	if err := json.Unmarshal(data, &amounts); err != nil {
		return err
	}
	*r = Resources{}
	for name, amount := range amounts {
		d, ok := ParseDimension(name)
		if !ok {
			return fmt.Errorf("unknown resource %q", name)
		}
		r[d] = amount
	}
	return nil
}
