// Package sensor measures what a node's boards and drives tell of themselves:
// temperatures, fans and power of the kernel's hwmon chips, the health log of
// NVMe drives, and the sensors of a baseboard management controller by IPMI. Each
// is a source of package agent. cmd/psg-agent makes them.
package sensor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
)

// The bounds of what is read.
const (
	maxChips   = 128
	maxSensors = 128 // of one chip
	maxText    = 256 // bytes of a file that holds one value
)

// errNone says that nothing of the kind is on this node.
var errNone = errors.New("there is none on this node")

// readText returns the first line of a small file.
func readText(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text := make([]byte, maxText)
	n, err := file.Read(text)
	if n == 0 && err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	first, _, _ := bytes.Cut(text[:n], []byte("\n"))
	return string(bytes.TrimSpace(first)), nil
}

// word makes a part of a metric's name of a label: "Package id 0" becomes
// "package_id_0".
func word(label string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, strings.TrimSpace(label))
	const longest = 48
	return clean[:min(len(clean), longest)]
}

// names gives what has the same name in one measurement numbers: "nvme",
// "nvme-2".
type names map[string]int

func (n names) unique(name string) string {
	n[name]++
	if n[name] == 1 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, n[name])
}
