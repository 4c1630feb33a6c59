package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/psgrid/psg/bus/credentials"
)

// Auth says who may come to the server and what they may. The process that the
// server is in comes as InProcess.
type Auth struct {
	Issuer *credentials.Issuer // of the credentials that are believed
	// Permissions returns the subjects that a name may publish and subscribe to;
	// nil means all that is not denied, an empty list none.
	Permissions func(name string) (publish, denyPublish, subscribe []string, err error)
	InProcess   string                           // name of the process itself
	Local       string                           // name of those without credentials from this machine; empty: refused
	Refused     func(client net.Addr, err error) // told who was refused and why; must not block
}

// gatekeeper admits clients by an Auth. It implements NATS's Authentication.
type gatekeeper struct{ auth Auth }

// Check registers a client under the name that it proves.
func (g *gatekeeper) Check(client server.ClientAuthentication) bool {
	from := client.RemoteAddress()
	name, until, err := g.name(client, from)
	if err == nil {
		err = g.admit(client, name, until)
	}
	if err != nil {
		g.auth.Refused(from, err)
	}
	return err == nil
}

// name is who a client is. Whoever shows credentials wants no more than they
// give, also on this machine. They come as a token: NATS forgets a client's JWT
// where it has no accounts of its own.
func (g *gatekeeper) name(client server.ClientAuthentication, from net.Addr) (string, time.Time, error) {
	shown := client.GetOpts()
	address, networked := from.(*net.TCPAddr)
	switch {
	case !networked:
		return g.auth.InProcess, time.Time{}, nil
	case shown.Token != "" || shown.Sig != "":
		return g.auth.Issuer.Check(shown.Token, shown.Sig, client.GetNonce(), time.Now())
	case g.auth.Local != "" && address.IP.IsLoopback():
		return g.auth.Local, time.Time{}, nil
	}
	return "", time.Time{}, errors.New("no credentials were shown")
}

func (g *gatekeeper) admit(client server.ClientAuthentication, name string, until time.Time) error {
	publish, denied, subscribe, err := g.auth.Permissions(name)
	if err != nil {
		return err
	}
	client.RegisterUser(&server.User{
		Username: name, ConnectionDeadline: until,
		Permissions: &server.Permissions{
			Publish:   only(publish, denied),
			Subscribe: only(subscribe, nil),
		},
	})
	return nil
}

// only is NATS's form of two lists. NATS takes an empty list of what is allowed
// for everything: nothing is what denies everything.
func only(allowed, denied []string) *server.SubjectPermission {
	if allowed != nil && len(allowed) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: allowed, Deny: denied}
}

// routes admits the other servers of a cluster by a password. It implements
// NATS's Authentication.
type routes struct {
	password string
	refused  func(net.Addr, error)
}

// Check compares what another server shows.
func (r *routes) Check(client server.ClientAuthentication) bool {
	same := subtle.ConstantTimeCompare([]byte(client.GetOpts().Password), []byte(r.password)) == 1
	if !same {
		r.refused(client.RemoteAddress(), errors.New("a server with another issuer of credentials"))
	}
	return same
}

// routePassword is what the servers of one cluster show each other: who has the
// issuer's file has it.
func routePassword(issuer *credentials.Issuer) string {
	sum := sha256.Sum256(append([]byte("psg routes\n"), issuer.Secret()...))
	return hex.EncodeToString(sum[:])
}
