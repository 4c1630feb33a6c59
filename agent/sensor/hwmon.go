package sensor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/psgrid/psg/agent"
)

// Hwmon is the kernel's hwmon chips, as an agent.Source: of the CPUs, the board,
// power supplies and drives. It is for one goroutine.
type Hwmon struct {
	dir string
}

// NewHwmon returns the chips of a sys file system.
func NewHwmon(sys string) *Hwmon { return &Hwmon{dir: filepath.Join(sys, "class/hwmon")} }

// Name is "hwmon".
func (h *Hwmon) Name() string { return "hwmon" }

// Every is the time between measurements: a chip may take the kernel long to ask.
func (h *Hwmon) Every() time.Duration { return 5 * time.Second }

// Measure puts what each sensor says, and the highest temperature. One that
// cannot be read now is left out. It fails where no chip says anything.
func (h *Hwmon) Measure(ctx context.Context, put agent.Put) error {
	chips, err := os.ReadDir(h.dir)
	if err != nil {
		return fmt.Errorf("list chips: %w", err)
	}
	slices.SortFunc(chips, func(a, b os.DirEntry) int { return naturally(a.Name(), b.Name()) })
	hottest, any, taken := math.Inf(-1), false, names{}
	for _, chip := range chips[:min(len(chips), maxChips)] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		dir := filepath.Join(h.dir, chip.Name())
		name, err := readText(filepath.Join(dir, "name"))
		if err != nil || name == "" {
			name = chip.Name()
		}
		name = taken.unique(word(name))
		for _, r := range readChip(dir) {
			any = true
			put("", "sensor/"+name+"/"+r.label+"/"+r.kind.metric, r.value)
			if r.kind.metric == celsius {
				hottest = max(hottest, r.value)
			}
		}
	}
	if !any {
		return errNone
	}
	if !math.IsInf(hottest, -1) {
		put("", "hottest_celsius", hottest)
	}
	return nil
}

// naturally orders names that end in a number by it.
func naturally(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

const celsius = "temperature_celsius"

// kind is a kind of sensor, by the kernel's names of its files:
// Documentation/hwmon/sysfs-interface.
type kind struct {
	prefix, suffix string
	metric         string
	per            float64 // of the kernel's units make 1 of the metric
}

// kinds are never written to. Of a power sensor that has both files the average
// counts, as it comes first.
var kinds = [...]kind{
	{"temp", "_input", celsius, 1000},
	{"fan", "_input", "fan_rpm", 1},
	{"power", "_average", "power_watts", 1e6},
	{"power", "_input", "power_watts", 1e6},
}

// reading is what one sensor says.
type reading struct {
	kind  kind
	label string
	value float64
}

// readChip reads the sensors of one chip, ordered by kind and number.
func readChip(dir string) (readings []reading) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	taken := map[string]bool{}
	for _, k := range kinds {
		var sensors []string // "temp1"
		for _, file := range files {
			if sensor, ok := strings.CutSuffix(file.Name(), k.suffix); ok && numbered(sensor, k.prefix) && !taken[sensor] {
				sensors = append(sensors, sensor)
			}
		}
		slices.SortFunc(sensors, naturally)
		labels := names{}
		for _, sensor := range sensors[:min(len(sensors), maxSensors)] {
			text, err := readText(filepath.Join(dir, sensor+k.suffix))
			if err != nil {
				continue // asleep, or not there
			}
			value, ok := parse(text, k)
			if !ok {
				continue
			}
			taken[sensor] = true
			label, err := readText(filepath.Join(dir, sensor+"_label"))
			if err != nil || label == "" {
				label = sensor
			}
			readings = append(readings, reading{k, labels.unique(word(label)), value})
		}
	}
	return readings
}

// numbered reports whether a name is a prefix and a number.
func numbered(name, prefix string) bool {
	number, ok := strings.CutPrefix(name, prefix)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}

// parse reads a value. What is beyond what such a sensor can tell is a fault of
// it: an absent probe says -128 °C or 255.
func parse(text string, k kind) (float64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false
	}
	value := float64(n) / k.per
	switch k.metric {
	case celsius:
		return value, value > -100 && value < 250
	default:
		return value, value >= 0 && value < 1e6
	}
}
