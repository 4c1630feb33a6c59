package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/psgrid/psg/policies"
)

// A leader may come to lead long after it loaded its policies.
func TestRulebook_KnowsWhatIsInForceWhateverTheDirectoryHolds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bundle")
	if err := os.CopyFS(dir, os.DirFS("../../policies/library/gpu_colocation")); err != nil {
		t.Fatal(err)
	}
	rules, err := newRulebook(dir, policies.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loaded := rules.bundle()
	policy := filepath.Join(dir, "policy.rego")
	whole, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		if err := os.WriteFile(policy, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte("package"))
	if err := rules.reload(); err == nil {
		t.Error("a broken bundle was loaded")
	}
	if rules.bundle() != loaded {
		t.Errorf("in force is %+v, want %+v still", rules.bundle(), loaded)
	}
	write(append(whole, "\n# changed\n"...))
	if err := rules.reload(); err != nil {
		t.Fatal(err)
	}
	if rules.bundle().Digest == loaded.Digest {
		t.Error("another bundle is in force under the old digest")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := rules.reload(); err == nil || rules.bundle().Digest == "" {
		t.Errorf("reload = %v, digest %q; want an error, and what was in force", err, rules.bundle().Digest)
	}
}
