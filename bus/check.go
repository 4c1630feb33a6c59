package bus

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/nats-io/nkeys"
)

// CheckCredentials says what is wrong with a NATS credentials file, before
// anything connects with it: whoever connects again and again would never end. An
// empty name means none. It does not say whether a server takes them.
func CheckCredentials(file string) error {
	if file == "" {
		return nil
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("NATS credentials: %w", err)
	}
	if err := errors.Join(checkToken(content), checkSeed(content)); err != nil {
		return fmt.Errorf("NATS credentials: %s holds none: %w", file, err)
	}
	return nil
}

// checkToken looks whether there is a JSON web token; only a server can tell
// whether it is signed.
func checkToken(content []byte) error {
	token, err := nkeys.ParseDecoratedJWT(content)
	if err != nil {
		return fmt.Errorf("no token: %w", err)
	}
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return errors.New("no token is in it")
	}
	for _, part := range parts[:2] {
		raw, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil || !json.Valid(raw) {
			return errors.New("the token in it is damaged")
		}
	}
	return nil
}

func checkSeed(content []byte) error {
	pair, err := nkeys.ParseDecoratedNKey(content)
	if err != nil {
		return errors.New("no key is in it that proves the token")
	}
	pair.Wipe()
	return nil
}
