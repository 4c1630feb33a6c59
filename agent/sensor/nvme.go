package sensor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/psgrid/psg/agent"
)

// NVMe is the health of the node's NVMe drives, as an agent.Source, by the log
// that each keeps (NVM Express Base Specification 2.0, 5.16.1.3). It is for one
// goroutine, and asks as root only.
type NVMe struct {
	class, dev string
	log        func(device string) ([]byte, error) // of a character device
}

// NewNVMe returns the drives that a sys file system lists, with their devices in
// dev.
func NewNVMe(sys, dev string) *NVMe {
	return &NVMe{class: filepath.Join(sys, "class/nvme"), dev: dev, log: readHealth}
}

// Name is "nvme".
func (n *NVMe) Name() string { return "nvme" }

// Every is the time between measurements.
func (n *NVMe) Every() time.Duration { return time.Minute }

// Measure puts the health of each drive. One that does not tell it fails no other;
// it fails if none does.
func (n *NVMe) Measure(ctx context.Context, put agent.Put) error {
	drives, err := os.ReadDir(n.class)
	if err != nil {
		return fmt.Errorf("list drives: %w", err)
	}
	slices.SortFunc(drives, func(a, b os.DirEntry) int { return naturally(a.Name(), b.Name()) })
	failed, any := errNone, false
	for _, drive := range drives[:min(len(drives), maxChips)] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		log, err := n.log(filepath.Join(n.dev, drive.Name()))
		if err == nil {
			var h health
			if h, err = parseHealth(log); err == nil {
				any = true
				h.put("nvme/"+word(drive.Name())+"/", put)
				continue
			}
		}
		failed = fmt.Errorf("health of %s: %w", drive.Name(), err)
	}
	if !any {
		return failed
	}
	return nil
}

// health is what a drive's log says.
type health struct {
	warnings       uint8   // bits
	celsius        float64 // composite
	spare          float64 // percent that is left
	spareThreshold float64
	used           float64 // percent of its life; may pass 100
	readGB         float64
	writtenGB      float64
	hours          float64
	unsafe         float64 // times that power went away without notice
	mediaErrors    float64
}

func (h *health) put(prefix string, put agent.Put) {
	put("", prefix+"critical_warnings", float64(h.warnings))
	put("", prefix+celsius, h.celsius)
	put("", prefix+"spare_percent", h.spare)
	put("", prefix+"spare_threshold_percent", h.spareThreshold)
	put("", prefix+"worn_percent", h.used)
	put("", prefix+"read_gb", h.readGB)
	put("", prefix+"written_gb", h.writtenGB)
	put("", prefix+"powered_hours", h.hours)
	put("", prefix+"unsafe_shutdowns", h.unsafe)
	put("", prefix+"media_errors", h.mediaErrors)
}

const healthSize = 512

var (
	errHealthSize = errors.New("the health log is not 512 bytes")
	errHealth     = errors.New("the health log makes no sense: spare or temperature is out of range")
)

// parseHealth reads a health log. All is little-endian.
func parseHealth(log []byte) (health, error) {
	if len(log) != healthSize {
		return health{}, errHealthSize
	}
	const (
		zeroCelsius = 273    // kelvin
		gbPerUnit   = 512e-6 // a unit of data is a thousand times 512 bytes
	)
	h := health{
		warnings:       log[0],
		celsius:        float64(binary.LittleEndian.Uint16(log[1:])) - zeroCelsius,
		spare:          float64(log[3]),
		spareThreshold: float64(log[4]),
		used:           float64(log[5]),
		readGB:         count(log[32:]) * gbPerUnit,
		writtenGB:      count(log[48:]) * gbPerUnit,
		hours:          count(log[128:]),
		unsafe:         count(log[144:]),
		mediaErrors:    count(log[160:]),
	}
	if h.spare > 100 || h.spareThreshold > 100 || h.celsius < -100 || h.celsius > 250 {
		return health{}, errHealth
	}
	return h, nil
}

// count is a number of 16 bytes.
func count(bytes []byte) float64 {
	low, high := binary.LittleEndian.Uint64(bytes), binary.LittleEndian.Uint64(bytes[8:])
	return float64(high)*(1<<64) + float64(low)
}
