package agent

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
)

// A process's environment is its own to write: whoever runs in a group that Nomad
// has not named could say that it is of another's allocation, and have its use
// charged there, or be spared as that is. So what it says counts only if something
// that is not its own says so as well.

// vouched reports whether a process is of an allocation by what Nomad has made of
// it: a directory of the allocation is mounted in its container, or a process that
// it descends from, and that only root can have started, is Nomad's executor of it.
// text is room for what is read.
func vouched(proc string, pid uint64, alloc string, text []byte) bool {
	dir := []byte("/" + alloc + "/")
	mounts, err := readAll(processFile(nil, proc, pid, "mountinfo"), text)
	if err == nil && mountsBelow(mounts, dir) {
		return true
	}
	for range maxAncestors {
		if pid = parentOf(proc, pid, text); pid <= 1 {
			return false
		}
		if !trusted(proc, pid) {
			continue
		}
		command, err := readAndClose(processFile(nil, proc, pid, "cmdline"), text)
		if err == nil && bytes.Contains(command, []byte("executor.out")) && bytes.Contains(command, dir) {
			return true
		}
	}
	return false
}

// maxAncestors is how far up Nomad's executor is looked for.
const maxAncestors = 16

// readAll reads a text of many records and closes its file.
func readAll(path, buffer []byte) ([]byte, error) {
	var f file
	defer f.close()
	return f.readRecords(path, buffer)
}

// mountsBelow reports whether anything is mounted that lies below a directory, by
// /proc/PID/mountinfo: the fourth word of a line is what is mounted there.
func mountsBelow(mounts, dir []byte) bool {
	for len(mounts) > 0 {
		var row, root []byte
		row, mounts = line(mounts)
		for range 4 {
			root, row = field(row)
		}
		if bytes.Contains(root, dir) {
			return true
		}
	}
	return false
}

// parentOf is a process's parent; 0 if it has ended.
func parentOf(proc string, pid uint64, text []byte) uint64 {
	stat, err := readAndClose(processFile(nil, proc, pid, "stat"), text)
	if err != nil {
		return 0
	}
	_, rest, _ := cutLast(stat, ") ") // the name of the program may hold anything
	_, rest = field(rest)             // its state
	parent, _, _ := number(rest)
	return parent
}

// trusted reports whether a process is root's, or of the user that this agent is.
func trusted(proc string, pid uint64) bool {
	info, err := os.Stat(proc + "/" + strconv.FormatUint(pid, 10))
	if err != nil {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
}
