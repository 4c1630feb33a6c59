package agent

import (
	"bytes"
	"errors"
)

// cpuTimes turns the counters of /proc/stat into shares since the reading
// before.
type cpuTimes struct {
	fields [8]uint64 // user nice system idle iowait irq softirq steal; guest is within user
	known  bool
}

const (
	idleField   = 3
	iowaitField = 4
	stealField  = 7
)

var errCPU = errors.New(`no line "cpu" with eight counters`)

// parse gives busy and stolen CPU and that which waited for a disk, in percent
// of all CPUs.
func (c *cpuTimes) parse(text []byte, values []float64) (bool, error) {
	rest, ok := bytes.CutPrefix(text, []byte("cpu "))
	if !ok {
		return false, errCPU
	}
	var now [8]uint64
	for i := range now {
		if now[i], rest, ok = number(bytes.TrimLeft(rest, " ")); !ok {
			return false, errCPU
		}
	}
	var spent [8]float64
	total := 0.0
	for i := range now {
		// Some counters may step back, iowait by design: then nothing was spent.
		if now[i] > c.fields[i] {
			spent[i] = float64(now[i] - c.fields[i])
			total += spent[i]
		}
	}
	ready := c.known && total > 0
	c.fields, c.known = now, true
	if ready {
		values[0] = 100 * (total - spent[idleField] - spent[iowaitField]) / total
		values[1] = 100 * spent[stealField] / total
		values[2] = 100 * spent[iowaitField] / total
	}
	return ready, nil
}

var (
	errMemory = errors.New(`no lines "MemTotal:" and "MemAvailable:" in kB`)
	errSwap   = errors.New(`no lines "SwapTotal:" and "SwapFree:" in kB`)
)

// parseMemory gives used and available memory and used swap space, in MiB.
func parseMemory(text []byte, values []float64) (bool, error) {
	total, ok1 := kilobytes(text, "MemTotal:")
	available, ok2 := kilobytes(text, "MemAvailable:")
	if !ok1 || !ok2 || available > total {
		return false, errMemory
	}
	values[0] = float64(total-available) / 1024
	values[1] = float64(available) / 1024
	swap, ok1 := kilobytes(text, "SwapTotal:")
	free, ok2 := kilobytes(text, "SwapFree:")
	if !ok1 || !ok2 || free > swap {
		return false, errSwap
	}
	values[2] = float64(swap-free) / 1024
	return true, nil
}

func kilobytes(text []byte, label string) (uint64, bool) {
	at := bytes.Index(text, []byte(label))
	if at < 0 || at > 0 && text[at-1] != '\n' {
		return 0, false
	}
	kb, rest, ok := number(bytes.TrimLeft(text[at+len(label):], " "))
	return kb, ok && bytes.HasPrefix(rest, []byte(" kB\n"))
}

var errLoad = errors.New("no load average at its start")

// parseLoad gives the load average of one minute.
func parseLoad(text []byte, values []float64) (bool, error) {
	load, rest, ok := decimal(text)
	if !ok || len(rest) == 0 || rest[0] != ' ' {
		return false, errLoad
	}
	values[0] = load
	return true, nil
}

// line cuts the first line off, without its end.
func line(text []byte) (first, rest []byte) {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return text[:end], text[end+1:]
	}
	return text, nil
}

// field cuts the first word off a line: what stands between spaces.
func field(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " ")
	if end := bytes.IndexByte(text, ' '); end >= 0 {
		return text[:end], text[end+1:]
	}
	return text, nil
}

// numbers reads as many unsigned integers as into has room for, which are what
// a line begins with.
func numbers(text []byte, into []uint64) bool {
	for i := range into {
		n, rest, ok := number(bytes.TrimLeft(text, " "))
		if !ok || len(rest) > 0 && rest[0] != ' ' {
			return false
		}
		into[i], text = n, rest
	}
	return true
}

// keyed finds the number of a line "key number".
func keyed(text []byte, key string) (uint64, bool) {
	for len(text) > 0 {
		var first []byte
		first, text = line(text)
		if len(first) > len(key) && first[len(key)] == ' ' && string(first[:len(key)]) == key {
			n, rest, ok := number(first[len(key)+1:])
			return n, ok && len(rest) == 0
		}
	}
	return 0, false
}

// whole reads a text that is one number and the end of its line.
func whole(text []byte) (uint64, bool) {
	n, rest, ok := number(text)
	return n, ok && len(rest) == 1 && rest[0] == '\n'
}

// number reads an unsigned integer.
func number(text []byte) (n uint64, rest []byte, ok bool) {
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		digit := uint64(text[i] - '0')
		if n > (1<<64-1-digit)/10 {
			return 0, nil, false
		}
		n = 10*n + digit
	}
	return n, text[i:], i > 0
}

// decimal reads an unsigned number with a fraction, as the kernel writes them:
// "0.05".
func decimal(text []byte) (v float64, rest []byte, ok bool) {
	whole, rest, ok := number(text)
	if !ok || len(rest) == 0 || rest[0] != '.' {
		return 0, nil, false
	}
	rest = rest[1:]
	digits := len(rest)
	fraction, rest, ok := number(rest)
	if !ok {
		return 0, nil, false
	}
	scale := 1.0
	for range digits - len(rest) {
		scale *= 10
	}
	return float64(whole) + float64(fraction)/scale, rest, true
}
