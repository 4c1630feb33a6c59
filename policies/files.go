package policies

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
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
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
			return nil // a link to nowhere or to a directory, a socket: none of the bundle
		}
		file, err := root.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		return f.add(name, file)
	})
}

func (f *files) readArchive() error {
	file, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return fmt.Errorf("%s is neither a directory nor a gzipped archive: %w", f.path, err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", f.path, err)
		case header.Typeflag != tar.TypeReg:
			continue
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if _, twice := f.content[name]; twice {
			return fmt.Errorf("read %s: %q is in it twice", f.path, name)
		}
		if err := f.add(name, archive); err != nil {
			return err
		}
	}
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

// archive is the bundle as a gzipped tar archive, which depends on nothing but
// its files. OPA reads it as one of its own.
func (f *files) archive() ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, name := range f.names() {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "/" + name, Size: int64(len(f.content[name])), Mode: 0o644, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}
		if _, err := archive.Write(f.content[name]); err != nil {
			return nil, fmt.Errorf("archive %s: %w", name, err)
		}
	}
	if err := errors.Join(archive.Close(), zipped.Close()); err != nil {
		return nil, fmt.Errorf("archive %s: %w", f.path, err)
	}
	return out.Bytes(), nil
}

// write replaces a file as a whole.
func write(name string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), ".psg-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // what is left of a failure
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Chmod(0o644), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
