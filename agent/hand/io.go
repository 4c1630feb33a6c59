package hand

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ioKeys are the four ceilings of a device, in the order in which version 2
// writes them, and the file that version 1 has for each.
var ioKeys = [...]struct{ unified, separate string }{
	{"rbps", "blkio.throttle.read_bps_device"},
	{"wbps", "blkio.throttle.write_bps_device"},
	{"riops", "blkio.throttle.read_iops_device"},
	{"wiops", "blkio.throttle.write_iops_device"},
}

// Devices lists the whole disks of a node, from its sys file system: those that
// are not made of others.
func Devices(sys string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(sys, "block"))
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	var devices []string
	for _, entry := range entries {
		made := slices.ContainsFunc([]string{"loop", "ram", "zram", "dm-", "md", "sr"}, func(prefix string) bool {
			return strings.HasPrefix(entry.Name(), prefix)
		})
		number, err := os.ReadFile(filepath.Join(sys, "block", entry.Name(), "dev"))
		if !made && err == nil {
			devices = append(devices, strings.TrimSpace(string(number)))
		}
	}
	return devices, nil
}

func (p *planner) io(l Limit) error {
	if len(p.devices) == 0 {
		return errors.New("no block device is known")
	}
	limits := [len(ioKeys)]int64{l.ReadBps, l.WriteBps, l.ReadOps, l.WriteOps}
	for _, device := range p.devices {
		if p.groups.Unified {
			if err := p.ioUnified(device, limits); err != nil {
				return err
			}
			continue
		}
		for i, limit := range limits {
			if err := p.ioSeparate(device, ioKeys[i].separate, limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *planner) ioSeparate(device, name string, limit int64) error {
	if limit <= 0 {
		return nil
	}
	file := filepath.Join(p.groups.IO, name)
	was, err := get(file, device)
	if err == nil && limit < limitOr(was, unlimited) {
		p.add(Write{File: file, Device: device, Was: was, Now: strconv.FormatInt(limit, 10)})
	}
	return err
}

// ioUnified writes all four ceilings of a device at once, as the kernel shows
// them, so that what is read back compares.
func (p *planner) ioUnified(device string, limits [len(ioKeys)]int64) error {
	file := filepath.Join(p.groups.IO, "io.max")
	line, err := get(file, device)
	if err != nil {
		return err
	}
	was := map[string]string{}
	for field := range strings.FieldsSeq(line) {
		key, value, _ := strings.Cut(field, "=")
		was[key] = value
	}
	var before, after []string
	for i, key := range ioKeys {
		old := limitOr(was[key.unified], unlimited)
		before = append(before, key.unified+"="+ceiling(old))
		if limits[i] > 0 {
			old = min(old, limits[i])
		}
		after = append(after, key.unified+"="+ceiling(old))
	}
	p.add(Write{File: file, Device: device, Was: strings.Join(before, " "), Now: strings.Join(after, " ")})
	return nil
}

func ceiling(n int64) string {
	if n == unlimited {
		return "max"
	}
	return strconv.FormatInt(n, 10)
}
