package agent

import (
	"bytes"
	"strconv"

	"github.com/psgrid/psg"
)

// AllocOf returns the allocation that a process belongs to, by its control group
// or else by its environment, if something that is not its own says so too:
// sources know processes by their PIDs. proc is the proc file system; the PID is of
// its namespace.
func AllocOf(proc string, pid int) (psg.AllocID, bool) {
	if pid <= 0 {
		return "", false
	}
	text := make([]byte, 16<<10)
	scratch := processFile(nil, proc, uint64(pid), "cgroup")
	if groups, err := readAndClose(scratch, text); err == nil {
		if alloc, ok := allocByGroups(groups); ok {
			return alloc, true
		}
	}
	scratch = processFile(scratch, proc, uint64(pid), "environ")
	environ, err := readAndClose(scratch, text)
	if err != nil {
		return "", false
	}
	alloc, _, ok := ownerByEnvironment(environ)
	claimed := string(alloc)
	if !ok || !vouched(proc, uint64(pid), claimed, make([]byte, textSize)) {
		return "", false
	}
	return psg.AllocID(claimed), true
}

// AllocByGroup returns the allocation that a control group's path names, as those
// of Nomad's drivers and PSG's executor do.
func AllocByGroup(path string) (psg.AllocID, bool) {
	for name := range bytes.SplitSeq([]byte(path), []byte("/")) {
		if o, ok := ownerByName(string(name), true); ok {
			return o.alloc, true
		}
	}
	return "", false
}

// IsAllocID reports whether a text has the form of an allocation's ID.
func IsAllocID(text string) bool { return isUUID(text) }

// allocByGroups reads /proc/PID/cgroup: a line "number:controllers:path" for each
// hierarchy.
func allocByGroups(text []byte) (psg.AllocID, bool) {
	for len(text) > 0 {
		var first []byte
		first, text = line(text)
		number, rest, ok := bytes.Cut(first, []byte(":"))
		if _, err := strconv.Atoi(string(number)); !ok || err != nil {
			continue
		}
		_, path, _ := bytes.Cut(rest, []byte(":"))
		if alloc, ok := AllocByGroup(string(path)); ok {
			return alloc, true
		}
	}
	return "", false
}
