// Package credentials makes and checks what clients of the embedded NATS server
// show of themselves: NATS credentials files, signed by one issuer. Who may do
// what is not written in them: they give a name, and the server's table of
// permissions says what that name may.
//
// Called by bus/server, which checks, and by cmd/psg, which issues.
package credentials

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Issuer signs credentials. Whoever has its file can act as anyone.
type Issuer struct {
	pair   nkeys.KeyPair
	public string
	seed   []byte
}

// Open reads an issuer from a file, which OpenOrCreate made.
func Open(file string) (*Issuer, error) {
	seed, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("issuer of credentials: %w", err)
	}
	issuer, err := of(bytes.TrimSpace(seed))
	if err != nil {
		return nil, fmt.Errorf("issuer of credentials %s: %w", file, err)
	}
	return issuer, nil
}

// OpenOrCreate reads an issuer from a file, and makes one if there is no file.
func OpenOrCreate(file string) (*Issuer, error) {
	issuer, err := Open(file)
	if !errors.Is(err, fs.ErrNotExist) {
		return issuer, err
	}
	pair, err := nkeys.CreateAccount()
	if err != nil {
		return nil, fmt.Errorf("make an issuer of credentials: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("make an issuer of credentials: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("keep the issuer of credentials: %w", err)
	}
	// Never over one that another process has made meanwhile.
	kept, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Open(file)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the issuer of credentials: %w", err)
	}
	_, err = kept.Write(append(seed, '\n'))
	if err := errors.Join(err, kept.Close()); err != nil {
		return nil, fmt.Errorf("keep the issuer of credentials: %w", err)
	}
	return of(seed)
}

func of(seed []byte) (*Issuer, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("it holds no key: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, err
	}
	if !nkeys.IsValidPublicAccountKey(public) {
		return nil, errors.New("it holds a key of another kind")
	}
	return &Issuer{pair, public, seed}, nil
}

// Secret is what only those who have the issuer's file know.
func (i *Issuer) Secret() []byte { return i.seed }

// Issue returns a credentials file for a name, good until a time; zero means for
// ever. It holds a key of its own: whoever has it acts in that name.
func (i *Issuer) Issue(name string, until time.Time) ([]byte, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	if !until.IsZero() {
		claims.Expires = until.Unix()
	}
	token, err := claims.Encode(i.pair)
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}
	seed, err := pair.Seed()
	if err != nil {
		return nil, fmt.Errorf("issue credentials: %w", err)
	}
	return jwt.FormatUserConfig(token, seed)
}

// Check returns the name that a client's token gives, and until when it is good.
// signature is the nonce that the client was sent, signed with the token's key.
func (i *Issuer) Check(token, signature string, nonce []byte, now time.Time) (name string, until time.Time, err error) {
	claims, err := jwt.DecodeUserClaims(token) // checks the issuer's signature
	if err != nil {
		return "", until, fmt.Errorf("credentials: %w", err)
	}
	if claims.Issuer != i.public {
		return "", until, errors.New("credentials are of another issuer")
	}
	if claims.Expires != 0 {
		if until = time.Unix(claims.Expires, 0); !now.Before(until) {
			return "", until, fmt.Errorf("credentials ended %s", until.Format(time.RFC3339))
		}
	}
	signed, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil {
		return "", until, fmt.Errorf("credentials: signature: %w", err)
	}
	key, err := nkeys.FromPublicKey(claims.Subject)
	if err != nil {
		return "", until, fmt.Errorf("credentials: %w", err)
	}
	if err := key.Verify(nonce, signed); err != nil {
		return "", until, fmt.Errorf("credentials: %w", err)
	}
	return claims.Name, until, nil
}
