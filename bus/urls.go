package bus

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Servers are the URLs for people and logs: without the user, password or token
// that may stand in them.
func (c Config) Servers() []string {
	servers := make([]string, len(c.URLs))
	for i, text := range c.URLs {
		scheme, rest, found := strings.Cut(text, "://")
		if !found {
			scheme, rest = "nats", text
		}
		servers[i] = scheme + "://" + rest[strings.LastIndexByte(rest, '@')+1:]
	}
	return servers
}

// checkURL says what is wrong with a server's URL, without what must not be told.
// As NATS has it, host:port is one too.
func checkURL(text string) error {
	if !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case err != nil:
		var of *url.Error // quotes what it could not parse, a password and all
		if errors.As(err, &of) {
			err = of.Err
		}
		return err
	case !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme):
		return fmt.Errorf("scheme %q is not nats, tls, ws or wss", u.Scheme)
	case u.Hostname() == "":
		return errors.New("no host")
	}
	return nil
}
