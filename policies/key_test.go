package policies

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refuses expects an error that says so, and does not show a secret.
func refuses(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestReadKey_SaysWhatIsWrong(t *testing.T) {
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	odd, _ := keyFiles(t, p224)
	secret, large := saved(t, "secret", []byte("hunter2")), saved(t, "large", make([]byte, 1<<20+1))
	for _, c := range []struct{ file, algorithm, want string }{
		{filepath.Join(t.TempDir(), "none"), "", "read key: "},
		{secret, "", "it is no PEM block: for the secret of an HMAC, name the algorithm"},
		{secret, "RS256", "it is no PEM block"},
		{secret, "none", `algorithm "none" is none of HS256, `},
		{secret, "zzz", `algorithm "zzz" is none of`},
		{secret, "hs256", `did you mean "HS256"?`},
		{saved(t, "empty", nil), "", "it is empty"},
		{saved(t, "empty", nil), "HS256", "it is empty"},
		{saved(t, "blank", []byte(" \n")), "HS512", "it is empty"},
		{large, "HS256", "it is larger than 1048576 bytes"},
		{t.TempDir(), "HS256", "it is a directory, and not a regular file"},
		{pipe(t, t.TempDir(), "pipe"), "HS256", "it is a pipe, and not a regular file"},
		{os.DevNull, "HS256", "it is a device, and not a regular file"},
		{keyFile(t, "PRIVATE KEY", []byte("hunter2")), "", `PEM block "PRIVATE KEY": `},
		{keyFile(t, "OPENSSH PRIVATE KEY", []byte("x")), "", "it holds neither a key nor a certificate"},
		{keyFile(t, "ENCRYPTED PRIVATE KEY", []byte("x")), "", "it is encrypted"},
		{odd, "", "curve P-224 has no algorithm"},
	} {
		_, err := ReadKey(c.file, c.algorithm)
		refuses(t, err, c.want)
	}
}

// A public key is no secret: whoever knows it could sign.
func TestReadKey_TakesNoPublicKeyForASecret(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	signing, verifying := keyFiles(t, private)
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string]string{
		"public":         verifying,
		"private":        signing,
		"text before":    saved(t, "key", append([]byte("our key\n\n"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})...)),
		"cut":            saved(t, "key", []byte("-----BEGIN PUBLIC KEY-----\nMIIB")),
		"unknown block":  keyFile(t, "SOMETHING", []byte("x")),
		"DER":            saved(t, "key", der),
		"DER and a line": saved(t, "key", append(der, '\n')),
		"PKCS 1":         saved(t, "key", x509.MarshalPKCS1PublicKey(&private.PublicKey)),
		"SSH":            saved(t, "key", []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI me@here\n")),
		"JSON web key":   saved(t, "key", []byte(`{"kty": "RSA", "n": "AQAB", "e": "AQAB"}`)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ReadKey(file, "HS256")
			refuses(t, err, "HS256 is not for it")
		})
	}
}

// signers are a key of each kind.
func signers(t *testing.T) map[string]crypto.Signer {
	t.Helper()
	out := map[string]crypto.Signer{}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = key
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	out["EdDSA"] = edwards
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	out["RSA"] = key
	return out
}

func TestReadKey_RefusesAnAlgorithmOfOtherKeys(t *testing.T) {
	for name, signer := range signers(t) {
		signing, verifying := keyFiles(t, signer)
		for _, algorithm := range algorithms() {
			fits := algorithm == name || name == "RSA" && (algorithm[:2] == "RS" || algorithm[:2] == "PS")
			for _, file := range []string{signing, verifying} {
				if _, err := ReadKey(file, algorithm); (err == nil) != fits {
					t.Errorf("%s of %s: %v", algorithm, name, err)
				}
			}
		}
	}
}

// OpenSSL writes the parameters of a curve before the key.
func TestReadKey_PassesOverParameters(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{6, 1, 1}}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})...)
	dir := bundleDir(t, signable)
	if err := Sign(dir, mustKey(t, saved(t, "key", text), "")); err != nil {
		t.Fatal(err)
	}
	_, verifying := keyFiles(t, private)
	if _, err := (Config{Key: mustKey(t, verifying, "")}).Load(dir); err != nil {
		t.Error(err)
	}
}

func TestKey_OfAPairIsForOneThing(t *testing.T) {
	signing, verifying := ecKey(t)
	dir := bundleDir(t, signable)
	refuses(t, Sign(dir, verifying), "is a public one, which verifies: sign with its private key")
	if _, err := os.Stat(filepath.Join(dir, signaturesFile)); err == nil {
		t.Error("it is signed")
	}
	if err := Sign(dir, signing); err != nil {
		t.Fatal(err)
	}
	_, err := Config{Key: signing}.Load(dir)
	refuses(t, err, "is a private one, which signs and should be nowhere else: verify by its public key")
}
