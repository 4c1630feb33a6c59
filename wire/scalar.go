package wire

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// enum lists psg's names of an enumeration at their wire numbers. Number 0,
// "unspecified", is the empty name.
type enum[Name ~string, Number ~int32] []Name

func (e enum[Name, Number]) put(c *coder, field string, name Name) Number {
	for number, known := range e {
		if known == name {
			return Number(number)
		}
	}
	c.fail(field, "unknown value %q", name)
	return 0
}

func (e enum[Name, Number]) get(c *coder, field string, number Number) Name {
	if number < 0 || int(number) >= len(e) {
		c.fail(field, "unknown value %d: written by a newer version", number)
		return ""
	}
	return e[number]
}

func putTime(c *coder, field string, at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	out := timestamppb.New(at)
	if err := out.CheckValid(); err != nil {
		c.fail(field, "%v", err)
	}
	return out
}

func getTime(c *coder, field string, at *timestamppb.Timestamp) time.Time {
	if at == nil {
		return time.Time{}
	}
	if err := at.CheckValid(); err != nil {
		c.fail(field, "%v", err)
		return time.Time{}
	}
	return at.AsTime()
}

func putDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

func getDuration(c *coder, field string, d *durationpb.Duration) time.Duration {
	if d == nil {
		return 0
	}
	if err := d.CheckValid(); err != nil {
		c.fail(field, "%v", err)
		return 0
	}
	// AsDuration saturates beyond 292 years instead of failing.
	out := d.AsDuration()
	if int64(out/time.Second) != d.Seconds || int32(out%time.Second) != d.Nanos {
		c.fail(field, "%ds is longer than 292 years", d.Seconds)
		return 0
	}
	return out
}

func getInt(c *coder, field string, v int64) int {
	if int64(int(v)) != v {
		c.fail(field, "%d is outside this machine's integers", v)
	}
	return int(v)
}

func putInts(in []int) []int64 {
	if len(in) == 0 {
		return nil
	}
	out := make([]int64, len(in))
	for i, v := range in {
		out[i] = int64(v)
	}
	return out
}

func getInts(c *coder, field string, in []int64) []int {
	if len(in) == 0 {
		return nil
	}
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = getInt(c, field, v)
	}
	return out
}

// list and dict give the canonical form: none is nil. Both forms share their
// elements with the original, as every noun is immutable.
func list(in []string) []string {
	if len(in) == 0 {
		return nil
	}
	return in
}

func dict(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	return in
}
