package policies

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxArchiveBytes bounds an archive of a bundle, packed and unpacked: what the
// largest bundle takes, with 4 KiB for the headers and the padding of each file.
const maxArchiveBytes = maxBundleBytes + maxBundleFiles<<12

// errLargeArchive says that an archive has more bytes than any bundle needs.
var errLargeArchive = fmt.Errorf("it holds more than %d MiB", maxArchiveBytes>>20)

func (f *files) readArchive() error {
	file, err := openRegular(fileSystem{}, f.path)
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(&bounded{file, maxArchiveBytes})
	if err != nil {
		return fmt.Errorf("%s is neither a directory nor a gzipped archive: %w", f.path, err)
	}
	if err := f.unpack(&bounded{unzipped, maxArchiveBytes}); err != nil {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	return nil
}

// unpack reads a tar archive up to the end of what it is read from, where the
// checksum is. An archive with anything that would be passed over in silence is
// refused: whoever looks at it with another program might see another bundle.
func (f *files) unpack(from io.Reader) error {
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return padding(from)
		case err != nil:
			return err
		}
		switch header.Typeflag {
		case tar.TypeReg:
		case tar.TypeDir, tar.TypeXGlobalHeader:
			continue
		default:
			return fmt.Errorf("%q is %s: only files and directories belong into a bundle", header.Name, entryKind(header.Typeflag))
		}
		name := strings.TrimPrefix(path.Clean("/"+header.Name), "/")
		if name == "" {
			return fmt.Errorf("a file is named %q", header.Name)
		}
		if _, twice := f.content[name]; twice {
			return fmt.Errorf("%q is in it twice", name)
		}
		if err := f.add(name, archive); err != nil {
			return err
		}
	}
}

func entryKind(flag byte) string {
	switch flag {
	case tar.TypeSymlink, tar.TypeLink:
		return "a link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	}
	return fmt.Sprintf("of the unknown kind %q", flag)
}

// padding refuses what follows the end of an archive, zeros aside.
func padding(from io.Reader) error {
	block := make([]byte, 32<<10)
	for {
		n, err := from.Read(block)
		if len(bytes.Trim(block[:n], "\x00")) > 0 {
			return errors.New("something follows the end of the archive")
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// bounded fails, where io.LimitReader would end.
type bounded struct {
	from io.Reader
	left int
}

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.from.Read(into[:min(len(into), b.left+1)])
	if b.left -= n; b.left < 0 {
		return 0, errLargeArchive
	}
	return n, err
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

// write replaces a regular file as a whole, or makes one. It follows a link to
// the file that it leads to; whatever else is there stays.
func write(name string, content []byte) error {
	mode := fs.FileMode(0o644)
	if _, err := os.Lstat(name); err == nil {
		target, err := filepath.EvalSymlinks(name)
		if err != nil {
			return err
		}
		info, err := os.Lstat(target)
		if err == nil {
			err = regular("replace", target, info)
		}
		if err != nil {
			return err
		}
		name, mode = target, info.Mode().Perm()
	}
	temporary, err := os.CreateTemp(filepath.Dir(name), ".psg-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name()) // what is left of a failure
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Chmod(mode), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), name)
}
