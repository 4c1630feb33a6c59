package policies

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// packed is a gzipped tar archive of a bundle, with what else is written to it.
func packed(t *testing.T, more func(*tar.Writer) error, after string) string {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	f, err := readFiles(bundleDir(t, signable))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range f.names() {
		if err := addEntry(archive, tar.TypeReg, name, f.content[name]); err != nil {
			t.Fatal(err)
		}
	}
	if more != nil {
		if err := more(archive); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(zipped, after); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return saved(t, "b.tar.gz", out.Bytes())
}

func addEntry(archive *tar.Writer, kind byte, name string, content []byte) error {
	header := &tar.Header{Typeflag: kind, Name: name, Size: int64(len(content)), Mode: 0o644}
	if kind == tar.TypeXGlobalHeader {
		header = &tar.Header{Typeflag: kind, Name: name, PAXRecords: map[string]string{"comment": "0123456789abcdef"}}
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := archive.Write(content)
	return err
}

func tarEntry(kind byte, name, content string) func(*tar.Writer) error {
	return func(archive *tar.Writer) error { return addEntry(archive, kind, name, []byte(content)) }
}

func TestLoad_RefusesArchivesThatOthersReadOtherwise(t *testing.T) {
	for name, c := range map[string]struct {
		more  func(*tar.Writer) error
		after string
		want  string
	}{
		"link":       {tarEntry(tar.TypeSymlink, "q.rego", ""), "", `"q.rego" is a link: only files and directories belong into a bundle`},
		"hard link":  {tarEntry(tar.TypeLink, "q.rego", ""), "", `"q.rego" is a link`},
		"pipe":       {tarEntry(tar.TypeFifo, "q.rego", ""), "", `"q.rego" is a pipe`},
		"device":     {tarEntry(tar.TypeChar, "q.rego", ""), "", `"q.rego" is a device`},
		"unknown":    {tarEntry('7', "q.rego", "package q\n"), "", `"q.rego" is of the unknown kind '7'`},
		"twice":      {tarEntry(tar.TypeReg, "./bundle.hcl", "bundle \"other\" {}\n"), "", `"bundle.hcl" is in it twice`},
		"no name":    {tarEntry(tar.TypeReg, "..", ""), "", `a file is named ".."`},
		"after it":   {nil, strings.Repeat("\x00", 1024) + "x", "something follows the end of the archive"},
		"another":    {nil, tarOf(t, "bundle.hcl"), "something follows the end of the archive"},
		"no bundle":  {tarEntry(tar.TypeDir, "sub/", ""), "", ""},
		"padding":    {nil, strings.Repeat("\x00", 20480), ""},
		"of git":     {tarEntry(tar.TypeXGlobalHeader, "pax_global_header", ""), "", ""},
		"much of it": {nil, strings.Repeat("\x00", maxArchiveBytes), "it holds more than 103 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(packed(t, c.more, c.after))
			if c.want == "" && err == nil {
				return
			}
			refuses(t, err, c.want)
		})
	}
}

func tarOf(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	if err := addEntry(tar.NewWriter(&out), tar.TypeReg, name, nil); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestLoad_ReadsArchivesToTheEnd(t *testing.T) {
	whole, err := os.ReadFile(packed(t, nil, ""))
	if err != nil {
		t.Fatal(err)
	}
	damaged := slices.Clone(whole)
	damaged[len(damaged)-8] ^= 1 // of the checksum
	for content, want := range map[string]string{
		string(damaged):                                 "gzip: invalid checksum",
		string(whole) + "x":                             "unexpected EOF",
		string(whole[:len(whole)-4]):                    "unexpected EOF",
		string(whole) + strings.Repeat("0123456789", 3): "gzip: invalid header",
	} {
		_, err := Load(saved(t, "b.tar.gz", []byte(content)))
		refuses(t, err, want)
	}
}

func TestBuild_ReplacesOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	bundle, at := bundleDir(t, signable), func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("target"), []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	pipe(t, dir, "pipe")
	for link, to := range map[string]string{"to file": "target", "to pipe": "pipe", "nowhere": "gone", "cycle": "cycle", "to null": os.DevNull, "twice": "to file"} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	before := kinds(t, dir)
	for name, want := range map[string]string{
		"pipe": "it is a pipe", "to pipe": "it is a pipe", "to null": "it is a device", "nowhere": "no such file", "cycle": "too many links", ".": "it is a directory",
	} {
		refuses(t, Build(bundle, at(name), Key{}), want)
	}
	for _, name := range []string{"to file", "twice", "target"} {
		if err := os.WriteFile(at("target"), []byte("old"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := Build(bundle, at(name), Key{}); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(at("target")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if after := kinds(t, dir); !maps.Equal(before, after) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
}

// kinds are the modes of what is in a directory.
func kinds(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]fs.FileMode{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = info.Mode()
	}
	return out
}

// An archive among the files that it is of would be one of them the next time, or
// replace one.
func TestBuild_WritesOutsideOfTheBundle(t *testing.T) {
	dir, link := bundleDir(t, signable), filepath.Join(t.TempDir(), "link")
	if err := errors.Join(os.Symlink(dir, link), os.Mkdir(filepath.Join(dir, ".build"), 0o700)); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, c := range []struct{ bundle, archive string }{
		{".", "b.tar.gz"}, {dir, "b.tar.gz"}, {dir, "sub/p.rego"}, {link, filepath.Join(dir, "b.tar.gz")}, {dir, filepath.Join(link, "sub", "b.tar.gz")},
	} {
		refuses(t, Build(c.bundle, c.archive, Key{}), "would be part of it from then on: write it elsewhere")
	}
	for _, archive := range []string{".build/b.tar.gz", "../b.tar.gz"} {
		if err := Build(".", archive, Key{}); err != nil {
			t.Error(err)
		}
	}
	set, err := Load(dir)
	if err != nil || set.Digest() != mustLoad(t, Config{}, signable).Digest() {
		t.Errorf("the bundle is another: %v", err)
	}
}
