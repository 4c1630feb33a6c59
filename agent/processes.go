package agent

import (
	"bytes"
	"errors"
	"math"
	"time"
)

// mostProcesses bounds how many processes of a task are read at every
// collection: with more, it is done as often as slow files are read.
const mostProcesses = 32

// processes is what the processes of a task used, for machines on which it has
// no group of its own that counts: Nomad's and PSG's executors make none on a
// cpuacct hierarchy apart from cpu, nor on blkio.
type processes struct {
	list  file // cgroup.procs of any of its groups
	many  bool
	ticks lasting
	read  lasting
	write lasting
}

// lasting makes a counter of a sum over processes. The kernel adds what a
// process used to its parent's when that has waited for it; between its end and
// that moment it is in neither. So a sum that is lower than before is a gap,
// unless it stays so.
type lasting struct {
	high uint64
	gaps int
}

const longestGap = 3 // readings

func (l *lasting) take(sum uint64) uint64 {
	if sum < l.high && l.gaps < longestGap {
		l.gaps++
		return l.high
	}
	l.high, l.gaps = sum, 0
	return sum
}

// sums is what a task's processes used since they began.
type sums struct {
	processes          int
	ticks, read, write uint64
}

// readProcesses takes the place of what cannot be read from groups.
func (t *task) readProcesses(g *groups, at time.Time, slow bool, list, text []byte) error {
	noCPU, noIO := t.use.Cgroups.CPUAcct == "", t.use.Cgroups.IO == "" && slow
	if !noCPU && !noIO || t.processes.many && !slow {
		return nil
	}
	g.scratch = append(append(append(g.scratch[:0], g.root...), t.group.path...), "/cgroup.procs\x00"...)
	list, err := t.processes.list.readRecords(g.scratch, list)
	if err != nil {
		t.loseProcesses(noCPU, noIO)
		return err
	}
	var s sums
	for len(list) > 0 {
		pid, rest, ok := number(list)
		if !ok || len(rest) == 0 || rest[0] != '\n' {
			return errNumber
		}
		list = rest[1:]
		s.processes++
		if noCPU {
			s.ticks += g.ticksOf(pid, text)
		}
		if noIO {
			g.addIO(&s, pid, text)
		}
	}
	t.processes.many = s.processes > mostProcesses
	if noCPU {
		const tickPercent = 1 // the kernel tells hundredths of a second on every machine
		t.use.CPUPercent = t.cpu.rate(at, t.processes.ticks.take(s.ticks)) * tickPercent
	}
	if noIO {
		t.use.ReadMBps = t.readBytes.rate(at, t.processes.read.take(s.read)) / mib
		t.use.WriteMBps = t.writeBytes.rate(at, t.processes.write.take(s.write)) / mib
	}
	return nil
}

func (t *task) loseProcesses(cpu, io bool) {
	if cpu {
		t.use.CPUPercent = math.NaN()
	}
	if io {
		t.use.ReadMBps, t.use.WriteMBps = math.NaN(), math.NaN()
	}
}

// ticksOf is the CPU time of a process and of its children that ended; zero if
// it has ended itself.
func (g *groups) ticksOf(pid uint64, text []byte) uint64 {
	g.scratch = processFile(g.scratch, g.proc, pid, "stat")
	stat, err := readAndClose(g.scratch, text)
	if err != nil {
		return 0
	}
	ticks, _ := parseTicks(stat)
	return ticks
}

// parseTicks sums the CPU time in /proc/PID/stat: the process's own and that of
// the children it waited for, in user and kernel mode.
func parseTicks(stat []byte) (uint64, error) {
	// The name of the program, in brackets, may hold anything.
	_, rest, ok := cutLast(stat, ") ")
	if !ok {
		return 0, errStat
	}
	const before = 11 // state, parent … major faults of children
	for range before {
		_, rest = field(rest)
	}
	var times [4]uint64
	if !numbers(rest, times[:]) {
		return 0, errStat
	}
	return times[0] + times[1] + times[2] + times[3], nil
}

var errStat = errors.New("no four times after a name in brackets")

func cutLast(text []byte, separator string) (before, after []byte, ok bool) {
	at := bytes.LastIndex(text, []byte(separator))
	if at < 0 {
		return text, nil, false
	}
	return text[:at], text[at+len(separator):], true
}

// addIO adds what a process has read from and written to block devices.
func (g *groups) addIO(s *sums, pid uint64, text []byte) {
	g.scratch = processFile(g.scratch, g.proc, pid, "io")
	io, err := readAndClose(g.scratch, text)
	if err != nil {
		return
	}
	read, _ := keyed(io, "read_bytes:")
	written, _ := keyed(io, "write_bytes:")
	s.read += read
	s.write += written
}
