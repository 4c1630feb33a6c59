package agent

import (
	"errors"
	"io/fs"
	"log/slog"
	"syscall"
	"time"
)

// walkEvery is how often workloads are looked for.
const walkEvery = 500 * time.Millisecond

// workloads measures the tasks on the node by their control groups.
type workloads struct {
	log    *slog.Logger
	slow   time.Duration // between readings of slow files
	groups *groups
	files  []taskFile

	tasks  []*task // ordered by allocation, task and path
	uses   []Use   // one per task
	walkAt time.Time
	walked struct {
		err     error // why they cannot be looked for
		backoff time.Duration
		full    bool // there were too many, and that was told
		doubted bool // one was in doubt, and that was told
	}
	faults [mostTaskFiles]error // the first of each file that is none of absence
	list   []byte
}

func newWorkloads(config Config) *workloads {
	h := hierarchyAt(config.Cgroup)
	w := &workloads{
		log: config.Log, slow: config.SlowFiles,
		groups: newGroups(h, config.Proc), files: separateFiles,
		list: make([]byte, 8<<10),
	}
	if h.unified {
		w.files = unifiedFiles
	}
	return w
}

// collect measures every task, and reports whether they are others than before.
func (w *workloads) collect(now time.Time, text []byte) (changed bool) {
	if !now.Before(w.walkAt) {
		changed = w.find(now, text)
	}
	w.uses = w.uses[:0]
	for _, t := range w.tasks {
		slow := !now.Before(t.slowAt)
		if slow {
			t.slowAt = now.Add(w.slow)
			w.complete(t, now)
		}
		for i := range w.files {
			if f := &w.files[i]; slow || !f.slow {
				w.read(t, i, now, text)
			}
		}
		// A process that ends meanwhile is no fault.
		_ = t.readProcesses(w.groups, now, slow, w.list, text)
		w.uses = append(w.uses, t.use)
	}
	return changed
}

// complete takes up groups of a task that were made after it was found: drivers
// make one after the other, and PSG may make one to hold a task back.
func (w *workloads) complete(t *task, now time.Time) {
	if t.use.Cgroups.Unified || now.Before(t.completeAt) {
		return
	}
	t.completeAt = now.Add(busyLook)
	c, h := &t.use.Cgroups, &w.groups.hierarchy
	for _, one := range [...]struct {
		dir  *string
		root string
	}{{&c.CPU, h.cpu}, {&c.CPUAcct, h.cpuAcct}, {&c.Memory, h.memory}, {&c.IO, h.io}, {&c.Freezer, h.frozen}} {
		if *one.dir == "" && one.root != "" && w.groups.holds(one.root, t.group.path) {
			*one.dir = one.root + t.group.path
			// The group counts from its own beginning, in other units.
			t.cpu, t.readBytes, t.writeBytes = counter{}, counter{}, counter{}
		}
	}
}

// read reads one file of a task. One that cannot be read is left alone for a
// while that doubles up to a minute; what it gives is unknown meanwhile.
func (w *workloads) read(t *task, i int, now time.Time, text []byte) {
	kind, missed := &w.files[i], &t.missed[i]
	dir := kind.dir(&t.use.Cgroups)
	if dir == "" || now.Before(missed.at) {
		return
	}
	w.groups.scratch = join(w.groups.scratch, dir, kind.name)
	content, err := t.files[i].read(w.groups.scratch, text)
	if err == nil {
		err = kind.read(t, now, content)
	} else {
		_ = kind.read(t, now, nil)
	}
	if err == nil {
		missed.backoff = 0
		return
	}
	t.files[i].close()
	missed.backoff = min(max(2*missed.backoff, minBackoff), maxBackoff)
	missed.at = now.Add(missed.backoff)
	if !absent(err) && w.faults[i] == nil {
		w.faults[i] = err
		w.log.Warn("a control group's file cannot be read", "file", kind.name, "group", dir, "error", err)
	}
}

// absent reports whether an error says that the kernel has no such file, or that
// the group has gone meanwhile.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}

// find looks for tasks that came or went, and reports whether any did.
func (w *workloads) find(now time.Time, text []byte) (changed bool) {
	was := w.walked.err
	changed, err := w.groups.update(now, text)
	w.walked.err = err
	if err != nil {
		w.walked.backoff = min(max(2*w.walked.backoff, minBackoff), maxBackoff)
		w.walkAt = now.Add(w.walked.backoff)
		if was == nil {
			w.log.Warn("workloads cannot be looked for", "error", err)
		}
		return false
	}
	w.walked.backoff, w.walkAt = 0, now.Add(walkEvery)
	if was != nil {
		w.log.Info("workloads can be looked for again")
	}
	if w.groups.doubted != "" && !w.walked.doubted {
		w.walked.doubted = true
		w.log.Warn("a process says that it is of an allocation, and nothing else does: it counts for nobody", "group", w.groups.doubted)
	}
	if w.groups.full && !w.walked.full {
		w.walked.full = true
		w.log.Warn("there are more control groups than are looked at", "at_most", maxGroups)
	}
	if changed {
		w.change(now)
	}
	return changed
}

// change takes up the tasks that came and drops those that went. Their slow
// files are read at different moments.
func (w *workloads) change(now time.Time) {
	before := map[*group]*task{}
	for _, t := range w.tasks {
		before[t.group] = t
	}
	w.tasks = w.tasks[:0:0]
	for i, g := range w.groups.owned() {
		t := before[g]
		if t != nil && t.use.Alloc == g.owner.alloc && t.use.Task == g.owner.task {
			delete(before, g)
		} else {
			t = newTask(g, w.groups.hierarchy.groupsOf(g.path))
			t.slowAt = now.Add(w.slow * time.Duration(i%slowTurns) / slowTurns)
		}
		w.tasks = append(w.tasks, t)
	}
	for _, t := range before {
		t.close()
	}
	w.uses = make([]Use, 0, len(w.tasks))
}

// slowTurns spreads the reading of slow files.
const slowTurns = 5

func (t *task) close() {
	for i := range t.files {
		t.files[i].close()
	}
	t.processes.list.close()
}

// close closes the files. A later collect opens them again.
func (w *workloads) close() {
	for _, t := range w.tasks {
		t.close()
	}
}
