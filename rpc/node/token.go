package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// minToken is the shortest token that is taken: 128 bits in hexadecimal.
const minToken = 32

// maxToken is the largest file of one, in bytes: it has to fit in a header.
const maxToken = 4096

// ReadToken reads a token from a file that its owner alone can read.
func ReadToken(name string) (string, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for who writes
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("token file: %w", err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("token file %s: it is no regular file", name)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("token file %s: others can read it (mode %04o): chmod 600", name, info.Mode().Perm())
	case info.Size() > maxToken:
		return "", fmt.Errorf("token file %s: %d bytes are more than %d", name, info.Size(), maxToken)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxToken))
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
