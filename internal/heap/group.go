package heap

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// groupLimit is what the control groups that a process is in let it have of
// memory, in bytes: the least of its own and those above. root is the root
// directory; math.MaxInt64 means no limit, or none that can be read.
func groupLimit(root fs.FS) int64 {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return math.MaxInt64
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		switch fields[1] {
		case "":
		case "memory":
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for at := path.Join("/", fields[2]); ; at = path.Dir(at) {
			least = min(least, readLimit(root, path.Join(base, at, file)))
			if at == "/" {
				break
			}
		}
	}
	return least
}

func readLimit(root fs.FS, name string) int64 {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return math.MaxInt64 // such as that of the root group
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit <= 0 { // "max"
		return math.MaxInt64
	}
	return limit
}
