package policies

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
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

// Key is a key that bundles are signed with, or verified by, as OPA does. The
// zero Key is none.
type Key struct {
	file      string
	algorithm string
	content   string
}

// ReadKey reads a key from a file: a PEM block of a private or public key or of a
// certificate, or the secret of an HMAC algorithm, to the last byte. The
// algorithm is one of JSON web tokens, such as RS256; when empty, it follows from
// the kind of key, which a secret has none of.
func ReadKey(file, algorithm string) (Key, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	if algorithm == "" {
		if algorithm, err = algorithmOf(content); err != nil {
			return Key{}, fmt.Errorf("key %s: %w", file, err)
		}
	}
	return Key{file, algorithm, string(content)}, nil
}

// given reports whether there is a key.
func (k Key) given() bool { return k.algorithm != "" }

// String names the key, and does not show it.
func (k Key) String() string { return fmt.Sprintf("%s (%s)", k.file, k.algorithm) }

// GoString keeps keys out of logs.
func (k Key) GoString() string { return k.String() }

func algorithmOf(content []byte) (string, error) {
	block, _ := pem.Decode(content)
	if block == nil {
		return "", errors.New("it is no PEM block: for the secret of an HMAC, name the algorithm, such as HS256")
	}
	key, err := parseKey(block)
	if err != nil {
		return "", fmt.Errorf("PEM block %q: %w", block.Type, err)
	}
	switch key := key.(type) {
	case *rsa.PrivateKey, *rsa.PublicKey:
		return "RS256", nil
	case *ecdsa.PrivateKey:
		return curveAlgorithm(key.Curve)
	case *ecdsa.PublicKey:
		return curveAlgorithm(key.Curve)
	case ed25519.PrivateKey, ed25519.PublicKey:
		return "EdDSA", nil
	}
	return "", fmt.Errorf("keys of type %T cannot sign", key)
}

func curveAlgorithm(curve elliptic.Curve) (string, error) {
	switch curve {
	case elliptic.P256():
		return "ES256", nil
	case elliptic.P384():
		return "ES384", nil
	case elliptic.P521():
		return "ES512", nil
	}
	return "", fmt.Errorf("curve %s has no algorithm", curve.Params().Name)
}

func parseKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	}
	return nil, errors.New("it holds neither a key nor a certificate")
}

// Sign signs the bundle in a directory: it checks it as Load does, and writes
// OPA's .signatures.json into it.
func Sign(dir string, key Key) error {
	f, err := loadable(dir)
	if err != nil {
		return err
	}
	if err := f.sign(key); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, signaturesFile), f.content[signaturesFile]); err != nil {
		return fmt.Errorf("sign bundle %s: %w", dir, err)
	}
	return nil
}

// Build makes a bundle into one gzipped tar archive, which Load and OPA read. It
// is checked as Load does, and signed unless the key is the zero Key; a
// signature that the bundle has is otherwise kept.
func Build(dir, archive string, key Key) error {
	f, err := loadable(dir)
	if err != nil {
		return err
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
	// OPA reads the file: given its content, it might take a secret for a path.
	token, err := bundle.GenerateSignedToken(hashes, bundle.NewSigningConfig(key.file, key.algorithm, ""), "")
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
	keys := map[string]*bundle.KeyConfig{id: {Key: key.content, Algorithm: key.algorithm}}
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
