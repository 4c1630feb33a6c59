package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/psgrid/psg"
)

// grantFile is where a gate leaves what it was granted, in the directory of an
// allocation that its tasks share. A template block of the main tasks reads it as
// environment.
const grantFile = "alloc/psg/grant.env"

// grantEnv is what a passage means to the processes behind the gate, in a fixed
// order. Cards appear only where some were granted: a task that got its cards
// from Nomad keeps what Nomad says of them.
func grantEnv(t Task, p passage) []string {
	env := []string{
		"PSG_ALLOC=" + string(t.Alloc),
		"PSG_NODE=" + string(t.Node),
		"PSG_NODE_NAME=" + t.NodeName,
		"PSG_GRANT=" + map[bool]string{true: "open", false: "granted"}[p.open],
	}
	if !p.open {
		env = append(env, fmt.Sprintf("PSG_DECISION=%d-%d", p.order.Epoch, p.order.Sequence))
	}
	if ids := deviceIDs(p.order.Devices); len(ids) > 0 {
		env = append(env, "NVIDIA_VISIBLE_DEVICES="+strings.Join(ids, ","))
	}
	return env
}

// deviceIDs lists each granted device once, in the order of the grant.
func deviceIDs(shares []psg.DeviceShare) []string {
	var ids []string
	for _, share := range shares {
		if !slices.Contains(ids, string(share.Device)) {
			ids = append(ids, string(share.Device))
		}
	}
	return ids
}

// writeGrant replaces the grant file of an allocation in one step; every user
// may read it.
func writeGrant(t Task, env []string) error {
	var text strings.Builder
	for _, entry := range env {
		key, value, _ := strings.Cut(entry, "=")
		fmt.Fprintf(&text, "%s=%s\n", key, quoted(value))
	}
	// Other tasks of the allocation may write there too, and put symbolic links:
	// what is below its directory must not lead this process out of it.
	root, err := os.OpenRoot(t.AllocDir)
	if err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	defer root.Close()
	if err := replaceShared(root, grantFile, shortID(t.ID), text.String()); err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	return nil
}

// replaceShared replaces a file below root, readable for all. The suffix of its
// draft is unique to the caller: two gates of one group may write at once.
func replaceShared(root *os.Root, path, suffix, text string) error {
	if err := root.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	draft := path + "." + suffix
	if err := root.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // the umask cut the mode
		return errors.Join(err, root.Remove(draft))
	}
	return root.Rename(draft, path)
}

// quoted writes a value as the reader of env files takes it: plain, or as a JSON
// string. Nomad executes the file as a template first, hence the brace.
func quoted(value string) string {
	if !strings.ContainsFunc(value, needsQuotes) {
		return value
	}
	data, err := json.Marshal(value)
	if err != nil {
		return "" // strings always encode
	}
	return strings.ReplaceAll(string(data), "{", `\u007b`)
}

func needsQuotes(r rune) bool { return r != ',' && !plain(r) }

func plain(r rune) bool {
	return r == '-' || r == '_' || r == '.' || r == ':' || r == '/' ||
		'0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
}

// checkDevices refuses the names that would mean other cards, or more, in a list
// of visible devices.
func checkDevices(shares []psg.DeviceShare) error {
	for _, id := range deviceIDs(shares) {
		switch {
		case id == "", id == "all", id == "none", id == "void", strings.ContainsFunc(id, func(r rune) bool { return !plain(r) }):
			return fmt.Errorf("grants a device named %q: %w", id, psg.ErrInvalid)
		}
	}
	return nil
}
