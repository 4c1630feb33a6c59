package executor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// procStat is what /proc/PID/stat says of a process, as proc(5) numbers it.
type procStat struct {
	pid        int
	session    int    // field 6
	user, sys  uint64 // fields 14+16 and 15+17: ticks, those of waited-for children included
	startTicks uint64 // field 22
	rssPages   uint64 // field 24
}

func readStat(pid int) (procStat, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, data)
}

func parseStat(pid int, data []byte) (procStat, error) {
	// The name in parentheses may hold anything, parentheses included.
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 22 {
		return procStat{}, fmt.Errorf("stat of process %d has %d fields", pid, len(fields))
	}
	at := func(n int) uint64 { // n as proc(5) counts; a negative value reads as 0
		v, _ := strconv.ParseUint(fields[n-3], 10, 64)
		return v
	}
	return procStat{
		pid: pid, session: int(at(6)),
		user: at(14) + at(16), sys: at(15) + at(17),
		startTicks: at(22), rssPages: at(24),
	}, nil
}

// groupStats lists the living processes of a command's control groups.
func groupStats(dir string) []procStat {
	var found []procStat
	for _, pid := range groupPIDs(dir) {
		if stat, err := readStat(pid); err == nil {
			found = append(found, stat)
		}
	}
	return found
}

// sessionStats lists the living processes of a command's session: those that
// carry its session number and are no older than its start. It reads all of
// /proc.
func sessionStats(s Started) []procStat {
	entries, err := os.ReadDir("/proc")
	if err != nil || s.PID == 0 || bootID() != s.Boot {
		return nil
	}
	var found []procStat
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if stat, err := readStat(pid); err == nil && stat.session == s.PID && stat.startTicks >= s.Ticks {
			found = append(found, stat)
		}
	}
	return found
}

// killRest kills what is left of a command whose executor is gone.
func killRest(s Started) {
	leader, err := readStat(s.PID)
	if reused := err == nil && leader.startTicks != s.Ticks; !reused { // else the pid names somebody else's session
		for _, stat := range sessionStats(s) {
			// A process that is gone meanwhile needs no kill.
			_ = syscall.Kill(stat.pid, syscall.SIGKILL)
		}
	}
	killGroups(s.Groups)
	removeGroups(s.Made)
}

// bootID tells one boot of the machine from another.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(id))
}
