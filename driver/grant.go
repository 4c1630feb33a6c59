package driver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/psgrid/psg"
)

// grantFile is where a gate leaves what it was granted, below the directory
// that the tasks of an allocation share. A template block of the main tasks
// reads it as environment.
const grantFile = "psg/grant.env"

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
		if strings.ContainsFunc(value, needsQuotes) {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&text, "%s=%s\n", key, value)
	}
	path := filepath.Join(t.SharedDir(), grantFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	// The name is unique to the start: two gates of one group may write at once.
	draft := path + "." + shortID(t.ID)
	if err := os.WriteFile(draft, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	// WriteFile's mode is cut by the umask and ignored for a file that exists.
	if err := os.Chmod(draft, 0o644); err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("write grant: %w", err)
	}
	return nil
}

func needsQuotes(r rune) bool {
	return !(r == '-' || r == '_' || r == '.' || r == ',' || r == ':' || r == '/' ||
		'0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
}
