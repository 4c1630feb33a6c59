package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/psgrid/psg/driver/executor"
	"github.com/psgrid/psg/hclspec"
)

const recordFile = "task.json"

// record is what the driver itself keeps of a task, beside what its executor
// keeps.
type record struct {
	Asked time.Time `json:"asked"` // when the task was started first
	Told  string    `json:"told"`  // last thing the gate said, not to be said again
	// Stanza is the task's config: Nomad's client forgets it when it restarts.
	Stanza hclspec.Stanza `json:"stanza"`
	// Granted is what the grant adds to the environment of the command; set
	// before the command starts.
	Granted []string `json:"granted,omitempty"`
}

func (r record) write(dir string) error { return executor.WriteJSON(filepath.Join(dir, recordFile), r) }

// Handle is what the orchestrator keeps of a task and gives back to Recover.
type Handle struct {
	Version int    `json:"version"`
	Dir     string `json:"dir"` // where the task's state is
}

const handleVersion = 1

// Encode writes the handle as the bytes that DecodeHandle reads.
func (h Handle) Encode() ([]byte, error) { return json.Marshal(h) }

// DecodeHandle reads what Encode wrote.
func DecodeHandle(data []byte) (Handle, error) {
	var h Handle
	if err := json.Unmarshal(data, &h); err != nil {
		return Handle{}, fmt.Errorf("decode task handle: %w", err)
	}
	if h.Version != handleVersion || !filepath.IsAbs(h.Dir) {
		return Handle{}, fmt.Errorf("task handle of version %d with directory %q is not one of ours", h.Version, h.Dir)
	}
	return h, nil
}

// makeStateDir makes the directory of a task's state, unless an earlier driver
// did: below root, or within the task's own directory where there is no root, out
// of the task's sight if the orchestrator made a private place there.
func makeStateDir(root string, t Task) (string, error) {
	top, below := root, filepath.Join("tasks", shortID(t.ID))
	if root == "" {
		top, below = t.AllocDir, filepath.Join(t.Name, ".psg-"+shortID(t.ID))
	} else if err := os.MkdirAll(filepath.Join(root, "tasks"), 0o700); err != nil {
		return "", fmt.Errorf("make task state: %w", err)
	}
	within, err := os.OpenRoot(top) // tasks may put symbolic links into their directories
	if err != nil {
		return "", fmt.Errorf("make task state: %w", err)
	}
	defer within.Close()
	private := filepath.Join(t.Name, "private")
	if info, err := within.Stat(private); root == "" && err == nil && info.IsDir() {
		below = filepath.Join(private, "psg-"+shortID(t.ID))
	}
	if err := within.Mkdir(below, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("make task state: %w", err)
	}
	return filepath.Join(top, below), nil
}

// errNoRecord says that a state directory is not one, or not of a task yet.
var errNoRecord = errors.New("no record of the task")

// readRecord reads a task's record; where it is gone, nothing is known of the
// task. What others could have written is not believed: a process named there
// would be killed.
func readRecord(dir string) (record, error) {
	var r record
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return r, errNoRecord
	}
	if err != nil {
		return r, err
	}
	owner := info.Sys().(*syscall.Stat_t).Uid
	if !info.IsDir() || int(owner) != os.Geteuid() || info.Mode().Perm()&0o077 != 0 {
		return r, fmt.Errorf("%s is not a private directory of ours: %s of user %d", dir, info.Mode(), owner)
	}
	ok, err := executor.ReadJSON(filepath.Join(dir, recordFile), &r)
	if err == nil && !ok {
		err = errNoRecord
	}
	return r, err
}

// shortID names a task in paths: IDs hold slashes and are long.
func shortID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}
