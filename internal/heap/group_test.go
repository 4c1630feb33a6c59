package heap

import (
	"math"
	"testing"
	"testing/fstest"
)

func TestGroupLimit_IsTheLeastAbove(t *testing.T) {
	for name, one := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups": {nil, math.MaxInt64},
		"none set": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
		}, math.MaxInt64},
		"its own": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "100\n", "sys/fs/cgroup/a/memory.max": "200\n",
		}, 100},
		"one above": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "200\n",
		}, 200},
		"a container's": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "300\n"}, 300},
		"version 1": {map[string]string{
			"proc/self/cgroup": "9:cpu:/x\n4:memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "400\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1\n",
		}, 400},
		"a path that leaves": {map[string]string{"proc/self/cgroup": "0::/../../a\n", "sys/fs/cgroup/a/memory.max": "500\n"}, 500},
		"garbage":            {map[string]string{"proc/self/cgroup": "0\n::\n", "sys/fs/cgroup/memory.max": "-1x"}, math.MaxInt64},
	} {
		root := fstest.MapFS{}
		for file, text := range one.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupLimit(root); got != one.want {
			t.Errorf("%s: %d, want %d", name, got, one.want)
		}
	}
}
