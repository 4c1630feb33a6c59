package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// makeStateDir makes the directory of a task's state, which must be new: below
// root, or within the task's own directory where there is no root, out of the
// task's sight if the orchestrator made a private place there.
func makeStateDir(root string, t Task) (string, error) {
	var dir string
	switch info, err := os.Stat(filepath.Join(t.Dir(), "private")); {
	case root != "":
		dir = filepath.Join(root, "tasks", shortID(t.ID))
	case err == nil && info.IsDir():
		dir = filepath.Join(t.Dir(), "private", "psg-"+shortID(t.ID))
	default:
		dir = filepath.Join(t.Dir(), ".psg-"+shortID(t.ID))
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", fmt.Errorf("make task state: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("make task state: %w", err)
	}
	return dir, nil
}

// readRecord reads a task's record; where it is gone, nothing is known of the
// task.
func readRecord(dir string) (record, error) {
	var r record
	ok, err := executor.ReadJSON(filepath.Join(dir, recordFile), &r)
	if err == nil && !ok {
		err = errors.New("no record of the task")
	}
	return r, err
}

// shortID names a task in paths: IDs hold slashes and are long.
func shortID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:8])
}
