package agent

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/psgrid/psg"
)

// The bounds of looking for workloads.
const (
	maxGroups = 10_000 // that are known
	maxDepth  = 12     // below the root
)

// How long after a look at a group the next one follows: doubled from the first
// to the last while nothing is in it, or nothing that is a workload. Groups that
// a killed Nomad left behind may be many: 200 looks a second are enough.
const (
	firstLook = 500 * time.Millisecond
	lastLook  = 4 * time.Second
	eachLook  = 5 * time.Millisecond
	busyLook  = 4 * time.Second // of one that belongs to a workload and is in use
)

// groups finds the control groups of workloads, by walking one hierarchy. A
// walk over what is known already allocates nothing.
type groups struct {
	hierarchy hierarchy
	proc      string // the proc file system
	root      string // of the hierarchy that is walked

	base    group             // the root itself, which belongs to nobody
	known   map[string]*group // by path from the root
	walk    []*group          // those to list in this walk
	number  uint64            // of this walk
	full    bool              // there were more than maxGroups
	doubted string            // path of one whose process says whose it is, and nothing else does
	scratch []byte
	buffer  []byte // of a directory's entries
	path    []byte
}

// group is one control group.
type group struct {
	path    string // from the root of the hierarchy: "/nomad/…"
	depth   int
	named   bool // owner stands in its name
	owner   owner
	used    bool // there are processes in it
	walk    uint64
	lookAt  time.Time
	waiting time.Duration
}

func newGroups(h hierarchy, proc string) *groups {
	return &groups{
		hierarchy: h, proc: proc, root: h.walked(),
		known:  map[string]*group{},
		buffer: make([]byte, 16<<10),
	}
}

var errNoGroups = errors.New("no control groups")

// update walks the hierarchy and reports whether the groups that belong to
// workloads are others than before. text is room for what is read.
func (g *groups) update(now time.Time, text []byte) (changed bool, err error) {
	if g.root == "" {
		return false, fmt.Errorf("%w below %s", errNoGroups, g.hierarchy.root)
	}
	g.number++
	g.walk = append(g.walk[:0], &g.base)
	for i := 0; i < len(g.walk); i++ {
		k := g.walk[i]
		if i > 0 && !now.Before(k.lookAt) {
			changed = g.look(k, now, text) || changed
		}
		if k.owner.alloc != "" {
			continue // what is below a workload's group is part of it
		}
		if err := g.list(k); err != nil && i == 0 {
			return false, err
		}
	}
	for path, k := range g.known {
		if k.walk != g.number {
			changed = changed || k.belongs()
			delete(g.known, path)
			continue
		}
		if !now.Before(k.lookAt) {
			changed = g.look(k, now, text) || changed
		}
	}
	return changed, nil
}

// list takes in what stands directly below a group.
func (g *groups) list(k *group) error {
	g.scratch = join(g.scratch, g.root, k.path)
	fd, err := openRaw(g.scratch, syscall.O_RDONLY|syscall.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("list %s: %w", g.root, err)
	}
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err == nil && stat.Nlink == 2 {
		return nil // the kernel counts the directories below
	}
	for {
		n, err := syscall.ReadDirent(fd, g.buffer)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for entries := g.buffer[:n]; len(entries) > 0; {
			var name []byte
			if name, entries = nextDirectory(entries); len(name) > 0 {
				g.take(k, name)
			}
		}
	}
}

// nextDirectory takes the first entry off a list that getdents64 wrote, and
// returns its name if it is a directory.
func nextDirectory(entries []byte) (name, rest []byte) {
	const lengthAt, kindAt, nameAt = 16, 18, 19
	if len(entries) < nameAt {
		return nil, nil
	}
	length := int(binary.NativeEndian.Uint16(entries[lengthAt:]))
	if length < nameAt || length > len(entries) {
		return nil, nil
	}
	if entries[kindAt] != syscall.DT_DIR {
		return nil, entries[length:]
	}
	name = entries[nameAt:length]
	for i, c := range name {
		if c == 0 {
			name = name[:i]
			break
		}
	}
	if string(name) == "." || string(name) == ".." {
		return nil, entries[length:]
	}
	return name, entries[length:]
}

func (g *groups) take(parent *group, name []byte) {
	g.path = append(append(append(g.path[:0], parent.path...), '/'), name...)
	k, ok := g.known[string(g.path)]
	if !ok {
		if len(g.known) >= maxGroups {
			g.full = true
			return
		}
		k = &group{path: string(g.path), depth: parent.depth + 1}
		k.owner, k.named = ownerByName(string(name), g.hierarchy.unified)
		g.known[k.path] = k
	}
	k.walk = g.number
	if !k.named && k.depth < maxDepth {
		g.walk = append(g.walk, k)
	}
}

// look sees whether a group is in use, and by whom; it reports whether that
// changed.
func (g *groups) look(k *group, now time.Time, text []byte) (changed bool) {
	belonged := k.belongs()
	pid, inside := g.first(k, text)
	k.used = inside
	if !k.named && pid > 0 {
		g.scratch = processFile(g.scratch, g.proc, pid, "environ")
		if environ, err := readAndClose(g.scratch, text); err == nil {
			changed = g.ask(k, pid, environ, text)
		}
	}
	belongs := k.belongs()
	switch {
	case belongs:
		k.waiting = busyLook
	case belonged, k.waiting == 0:
		k.waiting = firstLook
	default:
		k.waiting = min(2*k.waiting, max(lastLook, time.Duration(len(g.known))*eachLook))
	}
	k.lookAt = now.Add(k.waiting)
	return changed || belongs != belonged
}

// belongs reports whether a workload uses the group.
func (k *group) belongs() bool { return k.used && k.owner.alloc != "" }

// ask takes the owner from the environment of a process, and reports whether it is
// another. text is room for what is read; environ may be part of it.
func (g *groups) ask(k *group, pid uint64, environ, text []byte) (changed bool) {
	alloc, task, ok := ownerByEnvironment(environ)
	if ok && string(k.owner.alloc) == string(alloc) && k.owner.task == string(task) {
		return false
	}
	claimed := owner{alloc: psg.AllocID(alloc), task: string(task)}
	if ok && !vouched(g.proc, pid, string(claimed.alloc), text) {
		ok, g.doubted = false, k.path
	}
	if !ok {
		claimed = owner{}
	}
	changed = k.owner != claimed
	k.owner = claimed
	return changed
}

// first is the first process in a group; inside says whether there are any, in
// it or, where the kernel tells, below it.
func (g *groups) first(k *group, text []byte) (pid uint64, inside bool) {
	g.scratch = append(g.scratch[:0], g.root...)
	g.scratch = append(append(g.scratch, k.path...), "/cgroup.procs\x00"...)
	if list, err := readAndClose(g.scratch, text); err == nil {
		pid, _, inside = number(list)
	}
	if !inside && k.named && g.hierarchy.unified {
		g.scratch = append(g.scratch[:0], g.root...)
		g.scratch = append(append(g.scratch, k.path...), "/cgroup.events\x00"...)
		if events, err := readAndClose(g.scratch, text); err == nil {
			populated, _ := keyed(events, "populated")
			inside = populated > 0
		}
	}
	return pid, inside
}

// holds reports whether a group has processes of its own on a hierarchy: one
// that it has not entered yet tells nothing of it.
func (g *groups) holds(root, path string) bool {
	g.scratch = append(append(append(g.scratch[:0], root...), path...), "/cgroup.procs\x00"...)
	var first [1]byte
	list, err := readAndClose(g.scratch, first[:])
	return err == nil && len(list) > 0
}

// processFile writes the path of one of a process's files, with a zero byte at
// the end.
func processFile(scratch []byte, proc string, pid uint64, name string) []byte {
	scratch = append(append(scratch[:0], proc...), '/')
	scratch = append(strconv.AppendUint(scratch, pid, 10), '/')
	return append(append(scratch, name...), 0)
}

// owned returns the groups that belong to workloads, ordered by allocation,
// task and path.
func (g *groups) owned() []*group {
	var owned []*group
	for _, k := range g.known {
		if k.belongs() {
			owned = append(owned, k)
		}
	}
	slices.SortFunc(owned, func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(a.owner.alloc, b.owner.alloc),
			cmp.Compare(a.owner.task, b.owner.task),
			cmp.Compare(a.path, b.path),
		)
	})
	return owned
}
