package layers

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the module's path.
const Module = "github.com/psgrid/psg"

// Check reads every Go file below root, tests apart, and returns one line for
// each import that the table does not allow. It opens the sources itself: a
// build tool's answer would be cached when only an import changes.
func Check(root fs.FS) ([]string, error) {
	var faults []string
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		found, err := checkFile(root, name)
		faults = append(faults, found...)
		return err
	})
	return faults, err
}

func checkFile(root fs.FS, name string) ([]string, error) {
	source, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ImportsOnly)
	if err != nil {
		return nil, fmt.Errorf("parse imports: %w", err)
	}
	from, known := row(path.Dir(name))
	if !known {
		return []string{fmt.Sprintf("%s: package %s has no row in the table", name, path.Dir(name))}, nil
	}
	var faults []string
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		if why := refuse(from, imported); why != "" {
			faults = append(faults, fmt.Sprintf("%s: %s", files.Position(spec.Pos()), why))
		}
	}
	return faults, nil
}

// refuse says why package from may not import a path, or nothing if it may.
func refuse(from, imported string) string {
	inside, ours := strings.CutPrefix(imported+"/", Module+"/")
	if !ours {
		if slices.Contains(Standard, from) && strings.Contains(strings.Split(imported, "/")[0], ".") {
			return fmt.Sprintf("%q may import the standard library only, not %s", from, imported)
		}
		return ""
	}
	to, known := row(strings.TrimSuffix(inside, "/"))
	if !known {
		return fmt.Sprintf("%s has no row in the table", imported)
	}
	if to != from && !slices.Contains(Allowed[from], to) {
		return fmt.Sprintf("%q may not import %q", from, to)
	}
	return ""
}

// row finds the table row that a folder belongs to: its own, or the nearest
// above it.
func row(folder string) (string, bool) {
	for folder != "." && folder != "" {
		if _, ok := Allowed[folder]; ok {
			return folder, true
		}
		folder = path.Dir(folder)
		if folder == "." {
			return "", false
		}
	}
	return "", true
}
