package policies

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/open-policy-agent/opa/v1/bundle"
)

const signable = `
-- bundle.hcl --
bundle "b" {
  version = "1"
}
policy "p" {
  rego = "sub/p.rego"
}
-- sub/p.rego --
package p

deny contains "no" if input.node.name == "none"
-- sub/p_test.rego --
package p_test

import data.p

test_p if count(p.deny) == 0 with input as {"node": {"name": "a"}}
-- data.json --
{"b": 1, "a": [1.0, "x"]}
`

// keyFiles writes a key pair as PEM files.
func keyFiles(t *testing.T, private crypto.Signer) (signing, verifying string) {
	t.Helper()
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return keyFile(t, "PRIVATE KEY", secret), keyFile(t, "PUBLIC KEY", public)
}

func keyFile(t *testing.T, kind string, content []byte) string {
	t.Helper()
	return saved(t, "key", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
}

func saved(t *testing.T, name string, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func mustKey(t *testing.T, file, algorithm string) Key {
	t.Helper()
	key, err := ReadKey(file, algorithm)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// ecKey is the fastest kind to make.
func ecKey(t *testing.T) (signing, verifying Key) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s, v := keyFiles(t, private)
	return mustKey(t, s, ""), mustKey(t, v, "")
}

// opaVerify has OPA read an archive that must be signed with a key.
func opaVerify(archive []byte, key Key) error {
	keys := map[string]*bundle.KeyConfig{"k": {Key: key.content, Algorithm: key.algorithm}}
	_, err := bundle.NewReader(bytes.NewReader(archive)).WithBundleVerificationConfig(bundle.NewVerificationConfig(keys, "k", "", nil)).Read()
	return err
}

func TestBuild_SignsAsOPAVerifies(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := saved(t, "secret", []byte("not very secret\n"))
	_, wrong := ecKey(t)
	for _, c := range []struct {
		signer    crypto.Signer
		algorithm string
		want      string
	}{{private, "", "RS256"}, {private, "PS512", "PS512"}, {p384, "", "ES384"}, {edwards, "", "EdDSA"}, {nil, "HS256", "HS256"}} {
		t.Run(c.want, func(t *testing.T) {
			signing, verifying := secret, secret
			if c.signer != nil {
				signing, verifying = keyFiles(t, c.signer)
			}
			dir, archive := bundleDir(t, signable), filepath.Join(t.TempDir(), "b.tar.gz")
			if err := Build(dir, archive, mustKey(t, signing, c.algorithm)); err != nil {
				t.Fatal(err)
			}
			key := mustKey(t, verifying, c.algorithm)
			if key.algorithm != c.want {
				t.Errorf("algorithm %s", key.algorithm)
			}
			set, err := Config{Key: key}.Load(archive)
			if err != nil {
				t.Fatal(err)
			}
			if plain := mustLoad(t, Config{}, signable); plain.Digest() != set.Digest() || plain.Digest() == "" {
				t.Errorf("a signed bundle has the digest %s, and unsigned %s", set.Digest(), plain.Digest())
			}
			if _, err := (Config{Key: wrong}).Load(archive); err == nil || !strings.Contains(err.Error(), "is not signed with the key "+wrong.file) {
				t.Errorf("with another key: %v", err)
			}
			content, err := os.ReadFile(archive)
			if err != nil {
				t.Fatal(err)
			}
			if err := opaVerify(content, key); err != nil {
				t.Errorf("OPA refuses it: %v", err)
			}
			if err := opaVerify(content, wrong); err == nil {
				t.Error("OPA takes any key")
			}
		})
	}
}

// What opa sign does with an archive, by OPA's own parts.
func opaSign(t *testing.T, archive []byte, key Key) []byte {
	t.Helper()
	loader := bundle.NewTarballLoaderWithBaseURL(bytes.NewReader(archive), "")
	var files []bundle.FileInfo
	for {
		file, err := loader.NextFile()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var content bytes.Buffer
		if _, err := file.Read(&content, 1<<20); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(file.Path(), "/")
		hash, err := hashOf(name, content.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, bundle.NewFile(name, hash, "SHA-256"))
	}
	token, err := bundle.GenerateSignedToken(files, bundle.NewSigningConfig(key.file, key.algorithm, ""), "some key")
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, `{"signatures": [%q]}`, token)
}

func TestLoad_TakesWhatOPASigned(t *testing.T) {
	signing, verifying := ecKey(t)
	dir, archive := bundleDir(t, signable), filepath.Join(t.TempDir(), "b.tar.gz")
	if err := Build(dir, archive, Key{}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".signatures.json"), opaSign(t, content, signing), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Config{Key: verifying}).Load(dir); err != nil {
		t.Error(err)
	}
	set, err := Load(dir)
	if err != nil || len(set.Warnings()) != 1 || !strings.Contains(set.Warnings()[0], "the bundle is signed, and no key is given to verify it by") {
		t.Errorf("without a key: %v, %v", set.Warnings(), err)
	}
}

// Whatever stands for a signature, nothing but one of the key's is taken.
func FuzzVerify(f *testing.F) {
	f.Add([]byte(`{"signatures": ["eyJhbGciOiJIUzI1NiJ9.eyJmaWxlcyI6W119.AAAA"]}`))
	f.Add([]byte(`{"signatures": ["a.b"], "plugin": "_default"}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, signatures []byte) {
		key := Key{file: "key", algorithm: "HS256", content: "not to be guessed"}
		signed := &files{path: "b", content: map[string][]byte{"bundle.hcl": []byte("bundle \"b\" {}\n"), signaturesFile: signatures}}
		if err := signed.verify(key); err == nil {
			t.Errorf("%s was taken for a signature", signatures)
		}
	})
}

func TestLoad_RefusesWhatIsNotAsSigned(t *testing.T) {
	signing, verifying := ecKey(t)
	for name, c := range map[string]struct {
		tamper func(dir string) error
		want   string
	}{
		"policy":    {put("sub/p.rego", "package p\n\ndeny contains \"no\" if false\n"), "sub/p.rego is not what was signed: sub/p.rego: digest mismatch"},
		"bundle":    {put("bundle.hcl", "bundle \"other\" {}\n"), "bundle.hcl is not what was signed"},
		"data":      {put("data.json", `{"b": 2, "a": [1.0, "x"]}`), "data.json is not what was signed"},
		"broken":    {put("data.json", `{"b": `), "data.json is not what was signed"},
		"more":      {put("more.rego", "package more\n"), "more.rego is not part of what was signed"},
		"less":      {remove("sub/p_test.rego"), "lacks what was signed: sub/p_test.rego"},
		"unsigned":  {remove(".signatures.json"), "is not signed: it has no .signatures.json"},
		"no token":  {put(".signatures.json", `{"signatures": []}`), "missing JWT"},
		"no JSON":   {put(".signatures.json", `{`), "signature of bundle"},
		"plugin":    {put(".signatures.json", `{"signatures": [], "plugin": "mine"}`), `it is of an unknown kind, "mine"`},
		"unsecured": {put(".signatures.json", `{"signatures": ["eyJhbGciOiJub25lIn0.eyJmaWxlcyI6W119."]}`), "is not signed with the key"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := bundleDir(t, signable)
			if err := Sign(dir, signing); err != nil {
				t.Fatal(err)
			}
			store, err := NewStore(dir, Config{Key: verifying})
			if err != nil {
				t.Fatal(err)
			}
			before := store.Current()
			if err := c.tamper(dir); err != nil {
				t.Fatal(err)
			}
			if err := store.Reload(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if store.Current() != before {
				t.Error("it is in force")
			}
		})
	}
}

func put(name, content string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600) }
}

func remove(name string) func(string) error {
	return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
}

// OPA signs what JSON says: how it is written does not count.
func TestLoad_TakesDataWrittenOtherwise(t *testing.T) {
	signing, verifying := ecKey(t)
	dir := bundleDir(t, signable)
	if err := Sign(dir, signing); err != nil {
		t.Fatal(err)
	}
	if err := put("data.json", "{\"a\":[1.0,\"x\"],\n\"b\":1}")(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := (Config{Key: verifying}).Load(dir); err != nil {
		t.Error(err)
	}
}

func TestKey_IsNeverShown(t *testing.T) {
	key := mustKey(t, saved(t, "secret", []byte("hunter2")), "HS256")
	var out bytes.Buffer
	slog.New(slog.NewTextHandler(&out, nil)).Info("key", "key", key, "pointer", &key)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("key", "key", key, "config", Config{Key: key})
	fmt.Fprintf(&out, "%v %+v %#v %s %q %v %+v", key, key, key, key, key, Config{Key: key}, &Config{Key: key})
	if strings.Contains(out.String(), "hunter2") || !strings.Contains(out.String(), "(HS256)") {
		t.Error(out.String())
	}
}

func TestSign_RefusesAnArchive(t *testing.T) {
	dir, archive := bundleDir(t, one("deny contains \"x\" if input.node.ready\n")), filepath.Join(t.TempDir(), "b.tar.gz")
	if err := Build(dir, archive, Key{}); err != nil {
		t.Fatal(err)
	}
	if err := Sign(archive, Key{}); err == nil || !strings.Contains(err.Error(), "it is an archive: sign the directory") {
		t.Error(err)
	}
}
