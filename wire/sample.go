package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// EncodeSample writes a sample, but not its node: the subject says that.
func EncodeSample(s psg.Sample) ([]byte, error) {
	var c coder
	out := &psgv1.NodeSample{
		Session:  s.Session,
		Sequence: s.Sequence,
		At:       putTime(&c, "at", s.At),
		Full:     s.Full,
		Gone:     make([]uint32, len(s.Gone)),
		Slots:    each(&c, "slots", s.Slots, putSlot),

		Inventory: putOptional(&c, "inventory", s.Inventory, putInventory),
	}
	putDeclared(out, s.Declared)
	for _, v := range s.Values {
		out.ValueSeries = append(out.ValueSeries, uint32(v.Series))
		out.ValueUnits = append(out.ValueUnits, v.Units)
	}
	for _, u := range s.Uses {
		out.UseSeries = append(out.UseSeries, uint32(u.Series))
		out.UseUnits = append(out.UseUnits, u.Mean, u.Max, u.P95)
	}
	for _, f := range s.Forecasts {
		checkForecast(&c, f)
		out.ForecastSeries = append(out.ForecastSeries, uint32(f.Series))
		out.ForecastUnits = append(out.ForecastUnits, f.Mean, f.Upper)
	}
	for i, id := range s.Gone {
		out.Gone[i] = uint32(id)
	}
	return marshal(&c, "node sample", out)
}

// DecodeSample reads what EncodeSample wrote of a node. What is in the slots is
// for package telemetry to check.
func DecodeSample(node psg.NodeID, data []byte) (psg.Sample, error) {
	return decode(data, "node sample", &psgv1.NodeSample{}, func(c *coder, s *psgv1.NodeSample) psg.Sample {
		out := psg.Sample{
			Node:     node,
			Session:  s.GetSession(),
			Sequence: s.GetSequence(),
			At:       getTime(c, "at", s.GetAt()),
			Full:     s.GetFull(),
			Declared: getDeclared(c, s),
			Gone:     seriesIDs(s.GetGone()),
			Slots:    each(c, "slots", s.GetSlots(), getSlot),

			Inventory: getOptional(c, "inventory", s.GetInventory(), getInventory),
		}
		getSeries(c, s, &out)
		return out
	})
}

// getSeries reads the lists whose items stand beside one another.
func getSeries(c *coder, s *psgv1.NodeSample, out *psg.Sample) {
	if values := beside(c, "value_units", s.GetValueSeries(), s.GetValueUnits(), 1); values {
		out.Values = make([]psg.Value, len(s.GetValueSeries()))
		for i, id := range s.GetValueSeries() {
			out.Values[i] = psg.Value{Series: psg.SeriesID(id), Units: s.GetValueUnits()[i]}
		}
	}
	if uses := beside(c, "use_units", s.GetUseSeries(), s.GetUseUnits(), 3); uses {
		out.Uses = make([]psg.UseValue, len(s.GetUseSeries()))
		for i, id := range s.GetUseSeries() {
			u := s.GetUseUnits()[3*i:]
			out.Uses[i] = psg.UseValue{Series: psg.SeriesID(id), Mean: u[0], Max: u[1], P95: u[2]}
		}
	}
	if forecasts := beside(c, "forecast_units", s.GetForecastSeries(), s.GetForecastUnits(), 2); forecasts {
		out.Forecasts = make([]psg.Forecast, len(s.GetForecastSeries()))
		for i, id := range s.GetForecastSeries() {
			f := s.GetForecastUnits()[2*i:]
			out.Forecasts[i] = psg.Forecast{Series: psg.SeriesID(id), Mean: f[0], Upper: f[1]}
			checkForecast(c, out.Forecasts[i])
		}
	}
}

func checkForecast(c *coder, f psg.Forecast) {
	for _, amount := range [...]int64{f.Mean, f.Upper} {
		if amount < 0 || amount > psg.MaxQuantity {
			c.fail("forecast_units", "%d of series %d is outside 0..%d", amount, f.Series, int64(psg.MaxQuantity))
		}
	}
}

// beside reports whether there are items, and fails unless there are so many
// units for each.
func beside(c *coder, field string, series []uint32, units []int64, each int) bool {
	if len(units) != each*len(series) {
		c.fail(field, "has %d numbers for %d series, want %d for each", len(units), len(series), each)
		return false
	}
	return len(series) > 0
}

// putDeclared writes each name once, however many series have it.
func putDeclared(out *psgv1.NodeSample, declared []psg.Declared) {
	indexes := map[string]uint32{}
	index := func(name string) uint32 {
		i, known := indexes[name]
		if !known {
			i = uint32(len(out.Names))
			indexes[name] = i
			out.Names = append(out.Names, name)
		}
		return i
	}
	for _, d := range declared {
		alloc := uint32(0)
		if d.Alloc != "" {
			alloc = index(string(d.Alloc)) + 1
		}
		out.Declared = append(out.Declared, uint32(d.ID), index(d.Metric), alloc, d.Scale)
	}
}

func getDeclared(c *coder, s *psgv1.NodeSample) []psg.Declared {
	numbers, names := s.GetDeclared(), s.GetNames()
	if len(numbers)%4 != 0 {
		c.fail("declared", "has %d numbers, want four for each series", len(numbers))
		return nil
	}
	var out []psg.Declared
	for ; len(numbers) > 0; numbers = numbers[4:] {
		id, metric, alloc, scale := numbers[0], numbers[1], numbers[2], numbers[3]
		switch {
		case int64(metric) >= int64(len(names)), int64(alloc) > int64(len(names)):
			c.fail("declared", "series %d has names %d and %d of %d", id, metric, alloc, len(names))
			return nil
		case scale == 0:
			c.fail("declared", "series %d is in units of which 0 make 1", id)
			return nil
		}
		d := psg.Declared{ID: psg.SeriesID(id), Metric: names[metric], Scale: scale}
		if alloc > 0 {
			d.Alloc = psg.AllocID(names[alloc-1])
		}
		out = append(out, d)
	}
	return out
}

func putSlot(_ *coder, s psg.Slot) *psgv1.SampleSlot {
	return &psgv1.SampleSlot{Number: s.Number, Distributions: s.Data}
}

func getSlot(_ *coder, s *psgv1.SampleSlot) psg.Slot {
	return psg.Slot{Number: s.GetNumber(), Data: s.GetDistributions()}
}

func seriesIDs(in []uint32) []psg.SeriesID {
	if len(in) == 0 {
		return nil
	}
	out := make([]psg.SeriesID, len(in))
	for i, id := range in {
		out[i] = psg.SeriesID(id)
	}
	return out
}
