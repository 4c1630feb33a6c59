package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/psgrid/psg/hclspec"
)

// maxBundleBytes and maxBundleFiles bound a bundle.
const (
	maxBundleBytes = 64 << 20
	maxBundleFiles = 10_000
)

// files are what a bundle consists of, read once: what is verified and summed up
// is what is compiled, whatever becomes of the directory meanwhile.
type files struct {
	path    string            // of the directory or archive, for people
	content map[string][]byte // by slash-separated path within it
	left    int               // bytes that may still be added
}

// readFiles reads a directory, less what is hidden in it, or a gzipped tar
// archive.
func readFiles(name string) (*files, error) {
	f := &files{path: name, content: map[string][]byte{}, left: maxBundleBytes}
	info, err := os.Stat(name)
	switch {
	case err != nil:
	case info.IsDir():
		err = f.readDirectory()
	default:
		err = f.readArchive()
	}
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	return f, nil
}

// readDirectory follows links that stay within the directory, as mounted
// ConfigMaps have.
func (f *files) readDirectory() error {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.Lstat(hclspec.BundleFile); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s in %s", hclspec.BundleFile, f.path) // whatever else is, be it a file system
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		file, err := openRegular(root, name)
		switch {
		case err == nil:
			defer file.Close()
			return f.add(name, file)
		case entry.Type().IsRegular() || missed(name):
			return fmt.Errorf("%s: %w", f.path, err)
		}
		return nil // a link to nowhere or to a directory, a socket: none of the bundle
	})
}

// missed reports whether a bundle would say something else without a file. An
// editor's locks, which are links to nowhere, begin with .#
func missed(name string) bool {
	base := path.Base(name)
	switch path.Ext(base) {
	case ".rego", ".hcl", ".json", ".yaml", ".yml", ".manifest":
		return !strings.HasPrefix(base, ".#")
	}
	return false
}

func (f *files) add(name string, from io.Reader) error {
	content, err := io.ReadAll(io.LimitReader(from, int64(f.left)+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", inBundle(f.path, name), err)
	}
	if f.left -= len(content); f.left < 0 || len(f.content) == maxBundleFiles {
		return fmt.Errorf("%s holds more than %d MiB or %d files", f.path, maxBundleBytes>>20, maxBundleFiles)
	}
	f.content[name] = content
	return nil
}

// encloses reports whether a file would be read as one of the bundle.
func (f *files) encloses(name string) bool {
	if info, err := os.Stat(f.path); err != nil || !info.IsDir() {
		return false
	}
	dir, err := absolute(f.path)
	if err != nil {
		return false
	}
	parent, err := absolute(filepath.Dir(name))
	if err != nil {
		return false
	}
	within, err := filepath.Rel(dir, parent)
	hidden := func(part string) bool { return part != "." && strings.HasPrefix(part, ".") } // and so is what is above
	return err == nil && !slices.ContainsFunc(strings.Split(within, string(filepath.Separator)), hidden)
}

// absolute is a path without links.
func absolute(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}

// names are sorted.
func (f *files) names() []string { return slices.Sorted(maps.Keys(f.content)) }

// rego lists the Rego files, sorted.
func (f *files) rego() []string {
	return slices.DeleteFunc(f.names(), func(name string) bool { return path.Ext(name) != ".rego" })
}

// digest sums up all files but signatures: signing changes nothing of what a
// bundle says.
func (f *files) digest() string {
	sum := sha256.New()
	for _, name := range f.names() {
		if name != signaturesFile {
			fmt.Fprintf(sum, "%q %d\n", name, len(f.content[name]))
			sum.Write(f.content[name])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}
