package credentials

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
)

func issuer(t *testing.T) *Issuer {
	t.Helper()
	made, err := OpenOrCreate(filepath.Join(t.TempDir(), "sub", "issuer.nk"))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// show is what a client makes of its file.
func show(t *testing.T, file, nonce []byte) (token, signature string) {
	t.Helper()
	token, err := jwt.ParseDecoratedJWT(file)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := jwt.ParseDecoratedUserNKey(file)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := pair.Sign(nonce)
	if err != nil {
		t.Fatal(err)
	}
	return token, base64.RawURLEncoding.EncodeToString(signed)
}

func TestIssuer_ChecksWhatItIssued(t *testing.T) {
	now, nonce := time.Now(), []byte("nonce")
	ours, theirs := issuer(t), issuer(t)
	file, err := ours.Issue("agent/Node.1", now.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	token, signature := show(t, file, nonce)
	name, until, err := ours.Check(token, signature, nonce, now)
	if err != nil || name != "agent/Node.1" || until.Unix() != now.Add(time.Hour).Unix() {
		t.Errorf("Check = %q, %s, %v", name, until, err)
	}
	other, err := ours.Issue("operator", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	stolen, _ := show(t, other, nonce)
	for what, err := range map[string]error{
		"another issuer":         checked(theirs, token, signature, nonce, now),
		"another nonce":          checked(ours, token, signature, []byte("other"), now),
		"too late":               checked(ours, token, signature, nonce, now.Add(time.Hour)),
		"a token without a key":  checked(ours, stolen, signature, nonce, now),
		"a token that was cut":   checked(ours, token[:len(token)-4], signature, nonce, now),
		"no token":               checked(ours, "", signature, nonce, now),
		"no signature":           checked(ours, token, "", nonce, now),
		"no signature in base64": checked(ours, token, "%", nonce, now),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

func checked(i *Issuer, token, signature string, nonce []byte, now time.Time) error {
	_, _, err := i.Check(token, signature, nonce, now)
	return err
}

func TestOpenOrCreate_KeepsTheIssuer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "issuer.nk")
	first, err := OpenOrCreate(file)
	if err != nil {
		t.Fatal(err)
	}
	again, err := OpenOrCreate(file)
	if err != nil || again.public != first.public {
		t.Errorf("again = %v, %v", again, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the issuer: %v, %v", info.Mode(), err)
	}
	user, err := first.Issue("x", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"empty": nil, "garbage": []byte("SAAA"), "credentials": user} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "wrong.nk")
			if err := os.WriteFile(file, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenOrCreate(file); err == nil || !strings.Contains(err.Error(), file) {
				t.Errorf("error = %v, want one that names the file", err)
			}
		})
	}
}
