package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/psgrid/psg/hclspec"
)

// TestDial_NamesTheFileThatIsNoCredential gives each key of the plugin's config
// that names a file one that holds nothing of what it should.
func TestDial_NamesTheFileThatIsNoCredential(t *testing.T) {
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	if err := os.WriteFile(garbage, []byte("\x00\xff no key \x01\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{garbage, filepath.Join(dir, "missing")} {
		for key, config := range map[string]hclspec.Plugin{
			"tls.ca":     {TLS: &hclspec.TLS{CA: bad}},
			"tls.cert":   {TLS: &hclspec.TLS{Cert: bad, Key: garbage}},
			"tls.key":    {TLS: &hclspec.TLS{Cert: garbage, Key: bad}},
			"token_file": {TokenFile: bad},
		} {
			config.Controllers = []string{"127.0.0.1:1"}
			if _, err := dial(config); err == nil || !strings.Contains(err.Error(), bad) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s is %s: %v; want an error that names both", key, bad, err)
			}
		}
	}
}
