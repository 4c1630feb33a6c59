package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/agent/hand"
)

const (
	journalFile = "orders.json"
	// maxAnswers bounds how many orders are remembered for their repetition.
	maxAnswers = 512
)

// book is what the agent remembers of orders: what is in force, and what was
// answered last. All of it is in the journal.
type book struct {
	file string
	// As of the last save, for readers without the lock.
	held   atomic.Int64
	drains atomic.Bool

	Epoch    psg.Epoch              `json:"epoch"` // the highest that was seen
	Holds    []hold                 `json:"holds,omitempty"`
	Answers  map[psg.AllocID]answer `json:"answers,omitempty"` // the last of each; "" is the node's own
	Draining *draining              `json:"draining,omitempty"`
	Endings  []ending               `json:"endings,omitempty"` // evictions under way
	Thawed   stamp                  `json:"thawed,omitzero"`   // of the last order to thaw all
}

// hold is something that is in force, and how to undo it.
type hold struct {
	Kind    psg.OrderKind `json:"kind"` // Throttle or Freeze
	Alloc   psg.AllocID   `json:"alloc"`
	Stamp   stamp         `json:"stamp"`
	Ask     psg.RequestID `json:"ask,omitempty"`
	Unasked bool          `json:"unasked,omitempty"` // the healer's
	Until   time.Time     `json:"until"`
	Writes  []hand.Write  `json:"writes"` // in the order they are made
}

// answer is the last report on an allocation's orders.
type answer struct {
	Stamp  stamp      `json:"stamp"`
	Report psg.Report `json:"report"`
}

// ending is one eviction: SIGTERM, and SIGKILL at the deadline.
type ending struct {
	Alloc  psg.AllocID `json:"alloc"`
	By     time.Time   `json:"by"`
	Told   bool        `json:"told,omitempty"` // it has had its SIGTERM
	Report psg.Report  `json:"report"`         // to be completed
}

// of reports whether two endings are the same.
func (e ending) of(other ending) bool {
	return e.Alloc == other.Alloc && e.Report.Epoch == other.Report.Epoch && e.Report.Sequence == other.Report.Sequence
}

// draining says that the node is to be left.
type draining struct {
	At     time.Time  `json:"at,omitzero"` // when what is left is evicted; zero: never, or done
	Report psg.Report `json:"report"`      // on the order
}

// stamp orders the orders.
type stamp struct {
	Epoch    psg.Epoch `json:"epoch"`
	Sequence uint64    `json:"sequence"`
}

func (s stamp) compare(other stamp) int {
	return cmp.Or(cmp.Compare(s.Epoch, other.Epoch), cmp.Compare(s.Sequence, other.Sequence))
}

// openBook reads the journal in a directory, which is created if need be.
func openBook(dir string) (*book, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of the journal: %w", err)
	}
	if err := ours(dir); err != nil {
		return nil, err
	}
	b := &book{file: filepath.Join(dir, journalFile), Answers: map[psg.AllocID]answer{}}
	data, err := os.ReadFile(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	if err := json.Unmarshal(data, b); err != nil {
		return nil, fmt.Errorf("journal %s: %w: remove it once nothing is held back on this node", b.file, err)
	}
	if b.Answers == nil {
		b.Answers = map[psg.AllocID]answer{}
	}
	b.bound(time.Now())
	b.show()
	return b, nil
}

// ours refuses a directory that others may write to: what stands in the journal
// is written to files in root's name.
func ours(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("directory of the journal: %w", err)
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && owner.Uid != 0 && int(owner.Uid) != os.Geteuid() {
		return fmt.Errorf("directory of the journal: %s belongs to user %d", dir, owner.Uid)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("directory of the journal: others can write to %s (mode %04o): chmod 700", dir, info.Mode().Perm())
	}
	return nil
}

// bound holds leases to their limit, and from now on by the clock that cannot be
// set: the other may have been set back since, or may be yet.
func (b *book) bound(now time.Time) {
	for i := range b.Holds {
		h, most := &b.Holds[i], maxHold
		if h.Kind == psg.Freeze {
			most = maxFreeze
		}
		h.Until = now.Add(min(h.Until.Sub(now), most))
	}
	if d := b.Draining; d != nil && !d.At.IsZero() {
		d.At = now.Add(min(d.At.Sub(now), maxEnd))
	}
	for i := range b.Endings {
		b.Endings[i].By = now.Add(min(b.Endings[i].By.Sub(now), maxEnd))
	}
}

// save writes the journal, whole or not at all. It need not outlive the machine:
// control groups do not either.
func (b *book) save() error {
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	next := b.file + ".next"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	if err := os.Rename(next, b.file); err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	b.show()
	return nil
}

func (b *book) show() {
	b.held.Store(int64(len(b.Holds)))
	b.drains.Store(b.Draining != nil)
}

// all is a copy of what is in force.
func (b *book) all() []hold { return slices.Clone(b.Holds) }

// of are an allocation's holds.
func (b *book) of(alloc psg.AllocID) []hold {
	return slices.DeleteFunc(b.all(), func(h hold) bool { return h.Alloc != alloc })
}

func (b *book) find(kind psg.OrderKind, alloc psg.AllocID) (hold, bool) {
	i := slices.IndexFunc(b.Holds, func(h hold) bool { return h.Kind == kind && h.Alloc == alloc })
	if i < 0 {
		return hold{}, false
	}
	return b.Holds[i], true
}

func (b *book) add(h hold) {
	b.remove(h)
	b.Holds = append(b.Holds, h)
}

func (b *book) remove(h hold) {
	b.Holds = slices.DeleteFunc(b.Holds, func(other hold) bool { return other.Kind == h.Kind && other.Alloc == h.Alloc })
}

// remember keeps the answer to an order, and forgets the oldest if there are too
// many.
func (b *book) remember(at stamp, r psg.Report) {
	b.Answers[r.Alloc] = answer{Stamp: at, Report: r}
	if len(b.Answers) <= maxAnswers {
		return
	}
	var oldest psg.AllocID
	first := true
	for alloc, a := range b.Answers {
		if alloc != "" && (first || a.Report.At.Before(b.Answers[oldest].Report.At)) {
			oldest, first = alloc, false
		}
	}
	delete(b.Answers, oldest)
}
