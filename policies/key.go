package policies

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/psgrid/psg/hclspec"
)

// Key is a key that bundles are signed with, or verified by, as OPA does. The
// zero Key is none.
type Key struct {
	file      string
	algorithm string
	content   string // one PEM block, or a secret
	kind      keyKind
}

// keyKind is which half of a pair a key is.
type keyKind int

const (
	secretKey keyKind = iota // of an HMAC, which signs and verifies
	privateKey
	publicKey
)

// maxKeyBytes bounds the file of a key.
const maxKeyBytes = 1 << 20

// ReadKey reads a key from a file: a PEM block of a private or public key or of a
// certificate, or the secret of an HMAC algorithm, to the last byte. The
// algorithm is one of JSON web tokens, such as RS256, and must be one of the kind
// of key; when empty, it follows from that, which a secret has none of. What is
// public is refused as a secret: whoever knows it could sign.
func ReadKey(file, algorithm string) (Key, error) {
	content, err := ReadFile(file, maxKeyBytes)
	if err != nil {
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	key := Key{file: file, algorithm: algorithm}
	switch {
	case algorithm != "" && !slices.Contains(algorithms(), algorithm):
		err = fmt.Errorf("algorithm %q is none of %s%s", algorithm, strings.Join(algorithms(), ", "), hclspec.DidYouMean(strings.ToUpper(algorithm), algorithms()))
	case strings.HasPrefix(algorithm, "HS"):
		err = key.readSecret(content)
	default:
		err = key.readPair(content)
	}
	if err != nil {
		return Key{}, fmt.Errorf("key %s: %w", file, err)
	}
	return key, nil
}

// algorithms are what a key may be used with.
func algorithms() []string {
	return []string{"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
}

// given reports whether there is a key.
func (k Key) given() bool { return k.algorithm != "" }

// String names the key, and does not show it.
func (k Key) String() string { return fmt.Sprintf("%s (%s)", k.file, k.algorithm) }

// GoString keeps keys out of logs.
func (k Key) GoString() string { return k.String() }

// signing is the key as OPA takes it to sign with: a PEM block, but the file of a
// secret, which OPA might take for a path itself.
func (k Key) signing() (string, error) {
	switch k.kind {
	case publicKey:
		return "", fmt.Errorf("key %s is a public one, which verifies: sign with its private key", k)
	case secretKey:
		return k.file, nil
	}
	return k.content, nil
}

// verifying is the key as OPA takes it to verify by.
func (k Key) verifying() (string, error) {
	if k.kind == privateKey {
		return "", fmt.Errorf("key %s is a private one, which signs and should be nowhere else: verify by its public key, which openssl pkey -pubout makes of it", k)
	}
	return k.content, nil
}

func (k *Key) readSecret(content []byte) error {
	switch {
	case len(bytes.TrimSpace(content)) == 0:
		return errors.New("it is empty")
	case published(content):
		return fmt.Errorf("it is a key of a pair or a certificate, and no secret: %s is not for it", k.algorithm)
	}
	k.content, k.kind = string(content), secretKey
	return nil
}

// published reports whether a file is in one of the forms that public keys, and
// the private ones of pairs, have.
func published(content []byte) bool {
	trimmed := bytes.TrimSpace(content)
	for _, prefix := range []string{"ssh-", "ecdsa-sha2-", "sk-ssh-", "sk-ecdsa-"} {
		if bytes.HasPrefix(trimmed, []byte(prefix)) {
			return true
		}
	}
	if bytes.HasPrefix(trimmed, []byte("{")) && bytes.Contains(trimmed, []byte(`"kty"`)) { // JSON web key
		return true
	}
	if bytes.Contains(content, []byte("-----BEGIN ")) {
		return true
	}
	for _, parse := range parsers() { // of DER, which PEM is a text of
		_, err := parse(content)
		if err != nil {
			_, err = parse(bytes.TrimRight(content, "\r\n"))
		}
		if err == nil {
			return true
		}
	}
	return false
}

// readPair reads one half of a pair, whose algorithm follows from it if none is
// given.
func (k *Key) readPair(content []byte) error {
	block, err := keyBlock(content)
	if err != nil {
		return err
	}
	parsed, err := parseKey(block)
	if err != nil {
		return fmt.Errorf("PEM block %q: %w", block.Type, err)
	}
	kind, fitting, err := algorithmsOf(parsed)
	if err != nil {
		return err
	}
	switch {
	case k.algorithm == "":
		k.algorithm = fitting[0]
	case !slices.Contains(fitting, k.algorithm):
		return fmt.Errorf("algorithm %s is not for this kind of key, which is for %s", k.algorithm, strings.Join(fitting, ", "))
	}
	k.content, k.kind = string(pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})), kind
	return nil
}

// keyBlock is the first PEM block that is not of the parameters that OpenSSL
// writes before a key.
func keyBlock(content []byte) (*pem.Block, error) {
	for {
		block, rest := pem.Decode(content)
		switch {
		case block == nil && len(bytes.TrimSpace(content)) == 0:
			return nil, errors.New("it is empty")
		case block == nil:
			return nil, errors.New("it is no PEM block: for the secret of an HMAC, name the algorithm, such as HS256")
		case block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "":
			return nil, fmt.Errorf("PEM block %q: it is encrypted", block.Type)
		case block.Type != "EC PARAMETERS":
			return block, nil
		}
		content = rest
	}
}

// algorithmsOf are those that a key is for; the first is the usual one.
func algorithmsOf(key any) (keyKind, []string, error) {
	rsas := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		return privateKey, rsas, nil
	case *rsa.PublicKey:
		return publicKey, rsas, nil
	case *ecdsa.PrivateKey:
		algorithm, err := curveAlgorithm(key.Curve)
		return privateKey, []string{algorithm}, err
	case *ecdsa.PublicKey:
		algorithm, err := curveAlgorithm(key.Curve)
		return publicKey, []string{algorithm}, err
	case ed25519.PrivateKey:
		return privateKey, []string{"EdDSA"}, nil
	case ed25519.PublicKey:
		return publicKey, []string{"EdDSA"}, nil
	}
	return 0, nil, fmt.Errorf("keys of type %T cannot sign", key)
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

// parsers read what each type of PEM block holds.
func parsers() map[string]func(der []byte) (any, error) {
	return map[string]func([]byte) (any, error){
		"RSA PRIVATE KEY": func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) },
		"EC PRIVATE KEY":  func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) },
		"PRIVATE KEY":     x509.ParsePKCS8PrivateKey,
		"RSA PUBLIC KEY":  func(der []byte) (any, error) { return x509.ParsePKCS1PublicKey(der) },
		"PUBLIC KEY":      x509.ParsePKIXPublicKey,
		"CERTIFICATE": func(der []byte) (any, error) {
			certificate, err := x509.ParseCertificate(der)
			if err != nil {
				return nil, err
			}
			return certificate.PublicKey, nil
		},
	}
}

func parseKey(block *pem.Block) (any, error) {
	if parse, ok := parsers()[block.Type]; ok {
		return parse(block.Bytes)
	}
	return nil, errors.New("it holds neither a key nor a certificate")
}
