package nomad_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/nomad/api"

	e2e "github.com/psgrid/psg/e2e/cluster"
)

// issue gives every part of the region its certificate, before any runs.
func (r *region) issue() error {
	var err error
	if r.authority, err = e2e.NewAuthority(filepath.Join(r.dir, "tls")); err != nil {
		return err
	}
	server, err := r.authority.Issue("server.global.nomad")
	if err != nil {
		return err
	}
	client, err := r.authority.Issue("client.global.nomad")
	if err != nil {
		return err
	}
	if r.operator, err = r.authority.Issue("cli.global.nomad"); err != nil {
		return err
	}
	for _, a := range r.servers {
		a.TLS = server
	}
	for _, a := range r.clients {
		a.TLS = client
	}
	return nil
}

// secured bootstraps the ACLs, and gives the controller a token with the policy
// that the documentation says it needs, and certificates.
func (r *region) secured() error {
	management, _, err := r.client.ACLTokens().Bootstrap(nil)
	if err != nil {
		return fmt.Errorf("bootstrap ACLs: %w", err)
	}
	r.token = management.SecretID
	r.env = r.entry.Environ(r.operator, r.token)
	if r.client, err = r.entry.Client(r.operator, r.token); err != nil {
		return err
	}
	rules, err := documentedPolicy()
	if err != nil {
		return err
	}
	token, err := r.allow("psg", rules, 0)
	if err != nil {
		return err
	}
	r.controller.More = []string{"-nomad-token-file", r.tokenFile(),
		"-tls-ca", r.operator.CA, "-tls-cert", r.operator.Cert, "-tls-key", r.operator.Key}
	return r.giveToken(token)
}

// documentedPolicy is what docs/nomad.md says PSG's token needs; deploy has the
// same.
func documentedPolicy() (string, error) {
	text, err := os.ReadFile(filepath.Join(programs.Root, "docs", "nomad.md"))
	if err != nil {
		return "", err
	}
	deployed, err := os.ReadFile(filepath.Join(programs.Root, "deploy", "nomad", "acl-policy.hcl"))
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile("(?s)```hcl\n(namespace .*?)```").FindSubmatch(text)
	if found == nil {
		return "", errors.New("docs/nomad.md holds no ACL policy")
	}
	if !strings.HasSuffix(string(deployed), "\n"+string(found[1])) {
		return "", errors.New("docs/nomad.md and deploy/nomad/acl-policy.hcl differ")
	}
	return string(found[1]), nil
}

// allow makes a token with the rules; it expires after ttl, never if that is 0.
func (r *region) allow(name, rules string, ttl time.Duration) (string, error) {
	if _, err := r.client.ACLPolicies().Upsert(&api.ACLPolicy{Name: name, Rules: rules}, nil); err != nil {
		return "", fmt.Errorf("policy %s: %w", name, err)
	}
	token, _, err := r.client.ACLTokens().Create(&api.ACLToken{Name: name, Type: "client", Policies: []string{name}, ExpirationTTL: ttl}, nil)
	if err != nil {
		return "", fmt.Errorf("token %s: %w", name, err)
	}
	return token.SecretID, nil
}

func (r *region) tokenFile() string { return filepath.Join(r.dir, "token") }

// giveToken replaces the controller's token.
func (r *region) giveToken(token string) error {
	return os.WriteFile(r.tokenFile(), []byte(token+"\n"), 0o600)
}
