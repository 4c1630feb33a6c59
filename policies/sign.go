package policies

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/bundle"
	"github.com/open-policy-agent/opa/v1/util"
)

// signaturesFile is where OPA puts the signature of a bundle: a JSON web token
// of the hashes of all other files.
const signaturesFile = ".signatures.json"

// Sign signs the bundle in a directory: it checks it as Load does, and writes
// OPA's .signatures.json into it.
func Sign(dir string, key Key) error {
	f, err := loadable(dir)
	if err != nil {
		return err
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return fmt.Errorf("sign bundle %s: it is an archive: sign the directory that it was built from, and build it again", dir)
	}
	if err := f.sign(key); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, signaturesFile), f.content[signaturesFile]); err != nil {
		return fmt.Errorf("sign bundle %s: %w", dir, err)
	}
	return nil
}

// Build makes a bundle into one gzipped tar archive outside of it, which Load and
// OPA read. It is checked as Load does, and signed unless the key is the zero Key; a
// signature that the bundle has is otherwise kept.
func Build(dir, archive string, key Key) error {
	f, err := loadable(dir)
	if err != nil {
		return err
	}
	if f.encloses(archive) {
		return fmt.Errorf("build bundle %s: %s would be part of it from then on: write it elsewhere", dir, archive)
	}
	if key.given() {
		if err := f.sign(key); err != nil {
			return err
		}
	}
	content, err := f.archive()
	if err == nil {
		err = write(archive, content)
	}
	if err != nil {
		return fmt.Errorf("build bundle %s: %w", dir, err)
	}
	return nil
}

// loadable are the files of a bundle that nothing is wrong with.
func loadable(dir string) (*files, error) {
	f, err := readFiles(dir)
	if err != nil {
		return nil, err
	}
	_, err = Config{}.load(f, nil)
	return f, err
}

// sign puts a signature of all files among them.
func (f *files) sign(key Key) error {
	hashes := []bundle.FileInfo{}
	for _, name := range f.names() {
		if name == signaturesFile {
			continue
		}
		hash, err := hashOf(name, f.content[name])
		if err != nil {
			return fmt.Errorf("sign %s: %w", inBundle(f.path, name), err)
		}
		hashes = append(hashes, bundle.NewFile(name, hash, string(bundle.SHA256)))
	}
	signing, err := key.signing()
	if err != nil {
		return fmt.Errorf("sign bundle %s: %w", f.path, err)
	}
	token, err := bundle.GenerateSignedToken(hashes, bundle.NewSigningConfig(signing, key.algorithm, ""), "")
	if err != nil {
		return fmt.Errorf("sign bundle %s with %s: %w", f.path, key, err)
	}
	f.content[signaturesFile], err = json.MarshalIndent(bundle.SignaturesConfig{Signatures: []string{token}}, "", "  ")
	return err
}

// hashOf is OPA's hash of a file: of what JSON and YAML say, or of the bytes.
func hashOf(name string, content []byte) (string, error) {
	hasher, err := bundle.NewSignatureHasher(bundle.SHA256)
	if err != nil {
		return "", err
	}
	var value any = content
	if bundle.IsStructuredDoc(name) {
		if err := util.Unmarshal(content, &value); err != nil {
			return "", err
		}
	}
	sum, err := hasher.HashFile(value)
	return hex.EncodeToString(sum), err
}

// verify reports the first file that is not what was signed with the key.
func (f *files) verify(key Key) error {
	verifying, err := key.verifying()
	if err != nil {
		return fmt.Errorf("verify bundle %s: %w", f.path, err)
	}
	content, ok := f.content[signaturesFile]
	if !ok {
		return fmt.Errorf("bundle %s is not signed: it has no %s", f.path, signaturesFile)
	}
	var signatures bundle.SignaturesConfig
	if err := json.Unmarshal(content, &signatures); err != nil {
		return fmt.Errorf("signature of bundle %s: %w", f.path, err)
	}
	if signatures.Plugin != "" && signatures.Plugin != "_default" {
		return fmt.Errorf("signature of bundle %s: it is of an unknown kind, %q", f.path, signatures.Plugin)
	}
	const id = "key" // whatever the token says
	keys := map[string]*bundle.KeyConfig{id: {Key: verifying, Algorithm: key.algorithm}}
	signed, err := bundle.VerifyBundleSignature(signatures, bundle.NewVerificationConfig(keys, id, "", nil))
	if err != nil {
		return fmt.Errorf("bundle %s is not signed with the key %s: %w", f.path, key, err)
	}
	for _, name := range f.names() {
		if name == signaturesFile {
			continue
		}
		if _, ok := signed[name]; !ok {
			return fmt.Errorf("%s is not part of what was signed", inBundle(f.path, name))
		}
		if err := bundle.VerifyBundleFile(name, *bytes.NewBuffer(f.content[name]), signed); err != nil { // which takes it out of signed
			return fmt.Errorf("%s is not what was signed: %w", inBundle(f.path, name), err)
		}
	}
	if len(signed) > 0 {
		return fmt.Errorf("bundle %s lacks what was signed: %s", f.path, strings.Join(slices.Sorted(maps.Keys(signed)), ", "))
	}
	return nil
}
