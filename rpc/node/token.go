package node

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// minToken is the shortest token that is taken: 128 bits in hexadecimal.
const minToken = 32

// ReadToken reads a token from a file that its owner alone can read.
func ReadToken(name string) (string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("token file %s: others can read it (mode %04o): chmod 600", name, info.Mode().Perm())
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	switch {
	case len(token) < minToken:
		return "", fmt.Errorf("token file %s: %d characters are fewer than %d", name, len(token), minToken)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("token file " + name + ": it holds more than one printable ASCII word")
	}
	return token, nil
}
