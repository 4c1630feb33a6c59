package telemetry

import (
	"fmt"
	"math"
	"time"

	"github.com/psgrid/psg"
)

// check reports what is wrong with a sample that arrived at a moment.
func check(s *psg.Sample, arrived time.Time) error {
	switch ahead := s.At.Sub(arrived); {
	case s.Node == "":
		return fmt.Errorf("no node: %w", psg.ErrInvalid)
	case s.Sequence == 0 || s.Sequence >= math.MaxUint32:
		return fmt.Errorf("sequence: %w", psg.ErrInvalid)
	case s.At.IsZero():
		return fmt.Errorf("no time: %w", psg.ErrInvalid)
	case ahead > maxAhead:
		return fmt.Errorf("it is dated %s ahead of this clock, more than %s: one of the two is wrong: %w", ahead.Round(time.Second), maxAhead, psg.ErrInvalid)
	case max(len(s.Declared), len(s.Values), len(s.Uses), len(s.Forecasts), len(s.Gone)) > maxSeries:
		return fmt.Errorf("more than %d series: %w", maxSeries, psg.ErrInvalid)
	case len(s.Slots) > keptSlots:
		return fmt.Errorf("%d slots, of which %d are kept: %w", len(s.Slots), keptSlots, psg.ErrInvalid)
	}
	for _, d := range s.Declared {
		if d.ID == 0 || d.Scale == 0 || d.Metric == "" || len(d.Metric) > maxName || len(d.Alloc) > maxName {
			return fmt.Errorf("declared series %d is %q of %q in units of 1/%d: %w", d.ID, d.Metric, d.Alloc, d.Scale, psg.ErrInvalid)
		}
	}
	for _, v := range s.Values {
		if v.Units > maxUnits || v.Units < -maxUnits {
			return fmt.Errorf("series %d is %d units: %w", v.Series, v.Units, psg.ErrInvalid)
		}
	}
	for _, u := range s.Uses {
		if most, least := max(u.Mean, u.Max, u.P95), min(u.Mean, u.Max, u.P95); most > maxUnits || least < -maxUnits {
			return fmt.Errorf("use of series %d is %d..%d units: %w", u.Series, least, most, psg.ErrInvalid)
		}
	}
	for _, f := range s.Forecasts {
		if min(f.Mean, f.Upper) < 0 || max(f.Mean, f.Upper) > psg.MaxQuantity {
			return fmt.Errorf("forecast of series %d is %d to %d: %w", f.Series, f.Mean, f.Upper, psg.ErrInvalid)
		}
	}
	if s.Inventory != nil {
		if err := checkDevices(s.Inventory.Devices); err != nil {
			return err
		}
	}
	return checkSlots(s)
}

// checkDevices reports what is wrong with an inventory.
func checkDevices(devices []psg.Device) error {
	if len(devices) > maxDevices {
		return fmt.Errorf("%d devices, at most %d are known of a node: %w", len(devices), maxDevices, psg.ErrInvalid)
	}
	for i, d := range devices {
		switch {
		case d.ID == "" || len(d.ID) > maxName || i > 0 && devices[i-1].ID >= d.ID:
			return fmt.Errorf("device %d is %q, which is no ID after the one before: %w", i, d.ID, psg.ErrInvalid)
		case max(len(d.Vendor), len(d.Type), len(d.Model), len(d.Link)) > maxName:
			return fmt.Errorf("device %q: a name of more than %d bytes: %w", d.ID, maxName, psg.ErrInvalid)
		case d.MemoryMB < 0 || d.MemoryMB > psg.MaxQuantity || d.NUMA < -1:
			return fmt.Errorf("device %q has %d MiB on NUMA node %d: %w", d.ID, d.MemoryMB, d.NUMA, psg.ErrInvalid)
		case max(len(d.Attributes), len(d.Profiles)) > maxFacts:
			return fmt.Errorf("device %q: more than %d attributes or profiles: %w", d.ID, maxFacts, psg.ErrInvalid)
		}
		for name, value := range d.Attributes {
			if max(len(name), len(value)) > maxName {
				return fmt.Errorf("device %q: an attribute of more than %d bytes: %w", d.ID, maxName, psg.ErrInvalid)
			}
		}
		for _, profile := range d.Profiles {
			if len(profile) > maxName {
				return fmt.Errorf("device %q: a profile of more than %d bytes: %w", d.ID, maxName, psg.ErrInvalid)
			}
		}
	}
	return nil
}

func checkSlots(s *psg.Sample) error {
	open := floor(s.At)
	for _, slot := range s.Slots {
		switch {
		case slot.Number >= open:
			return fmt.Errorf("slot %d is not over in slot %d: %w", slot.Number, open, psg.ErrInvalid)
		case len(slot.Data) > maxSlotSize:
			return fmt.Errorf("slot %d has %d bytes: %w", slot.Number, len(slot.Data), psg.ErrInvalid)
		}
		if err := checkSlot(slot.Data); err != nil {
			return fmt.Errorf("slot %d: %w", slot.Number, err)
		}
	}
	return nil
}
