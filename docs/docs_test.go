// Package docs checks that the documents name what exists.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// named matches `path/file.go: Symbol` and `path/file` in backquotes.
var named = regexp.MustCompile("`([a-z][\\w./-]*/[\\w./-]+)(?:: (\\w+))?`")

func TestWalkthrough_NamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("walkthrough.md")
	if err != nil {
		t.Fatal(err)
	}
	found := named.FindAllStringSubmatch(strings.ReplaceAll(string(text), "\n", " "), -1)
	if len(found) < 20 {
		t.Fatalf("only %d names found: is the pattern still right?", len(found))
	}
	for _, match := range found {
		path, symbol := match[1], match[2]
		if strings.HasPrefix(path, "alloc/") { // in an allocation, not here
			continue
		}
		if _, err := os.Stat(filepath.Join("..", path)); err != nil {
			t.Errorf("walkthrough names %s: %v", path, err)
			continue
		}
		if symbol != "" && strings.HasSuffix(path, ".go") && !defines(t, path, symbol) {
			t.Errorf("walkthrough names %s in %s, which does not define it", symbol, path)
		}
	}
}

func defines(t *testing.T, path, symbol string) bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Name.Name == symbol {
			return true
		}
	}
	return false
}
