package agent

import (
	"bytes"
	"errors"
	"math"
	"time"
)

func (t *task) readSeparateBytes(at time.Time, text []byte) error {
	t.use.ReadMBps, t.use.WriteMBps = math.NaN(), math.NaN()
	read, written, err := sumSeparate(text)
	if err == nil {
		t.use.ReadMBps = t.readBytes.rate(at, read) / mib
		t.use.WriteMBps = t.writeBytes.rate(at, written) / mib
	}
	return err
}

func (t *task) readSeparateOps(at time.Time, text []byte) error {
	t.use.ReadIOPS, t.use.WriteIOPS = math.NaN(), math.NaN()
	read, written, err := sumSeparate(text)
	if err == nil {
		t.use.ReadIOPS = t.reads.rate(at, read)
		t.use.WriteIOPS = t.writes.rate(at, written)
	}
	return err
}

var errBlkio = errors.New(`no line "Total" at its end`)

// sumSeparate sums a file of lines "254:0 Read 4096" over all devices.
func sumSeparate(text []byte) (read, written uint64, err error) {
	for len(text) > 0 {
		var row []byte
		row, text = line(text)
		device, rest := field(row)
		if string(device) == "Total" {
			return read, written, nil
		}
		what, rest := field(rest)
		n, _, ok := number(rest)
		switch {
		case !ok:
			return 0, 0, errBlkio
		case string(what) == "Read":
			read += n
		case string(what) == "Write":
			written += n
		}
	}
	return 0, 0, errBlkio
}

func (t *task) readUnifiedIO(at time.Time, text []byte) error {
	u := &t.use
	u.ReadMBps, u.WriteMBps, u.ReadIOPS, u.WriteIOPS = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if text == nil {
		return errCounters
	}
	var sums [4]uint64
	if err := sumUnified(text, &sums); err != nil {
		return err
	}
	u.ReadMBps = t.readBytes.rate(at, sums[0]) / mib
	u.WriteMBps = t.writeBytes.rate(at, sums[1]) / mib
	u.ReadIOPS = t.reads.rate(at, sums[2])
	u.WriteIOPS = t.writes.rate(at, sums[3])
	return nil
}

var (
	errIO  = errors.New(`a word is not "key=number"`)
	ioKeys = [4]string{"rbytes", "wbytes", "rios", "wios"}
)

// sumUnified sums a file of lines "254:0 rbytes=4096 wbytes=0 …" over all
// devices, in the order of ioKeys. It may be empty: nothing was read or written
// yet.
func sumUnified(text []byte, sums *[4]uint64) error {
	for len(text) > 0 {
		var row, word []byte
		row, text = line(text)
		for _, row = field(row); len(row) > 0; {
			if word, row = field(row); len(word) == 0 {
				continue
			}
			key, value, _ := bytes.Cut(word, []byte{'='})
			n, rest, ok := number(value)
			if !ok || len(rest) > 0 {
				return errIO
			}
			for i, known := range ioKeys {
				if string(key) == known {
					sums[i] += n
				}
			}
		}
	}
	return nil
}
