package hclspec

import (
	"fmt"
	"net"
	"path/filepath"
	"time"
)

// FailPolicy is what gates do once no controller has answered for a while.
type FailPolicy string

// The policies.
const (
	FailOpen   FailPolicy = "open"   // start where the orchestrator put the allocation, and report it later
	FailClosed FailPolicy = "closed" // keep waiting
)

// Plugin is the config of the task driver on one node.
type Plugin struct {
	Controllers  []string // host:port of each controller's gRPC face
	Fail         FailPolicy
	FailAfter    time.Duration // from the first failed call to following Fail
	StateDir     string        // absolute; empty means each task's own directory
	CgroupParent string        // path below each cgroup hierarchy; empty means "psg"
	TLS          *TLS          // nil means plain text
	TokenFile    string        // holds the token that is shown to the controllers; empty means none
}

// TLS is how the driver proves itself to the controllers and checks them.
type TLS struct {
	CA         string // PEM file of the authorities; empty means the host's
	Cert       string // PEM file; empty means no client certificate
	Key        string // PEM file
	ServerName string // empty means the host of the address
}

// PluginFields declares the plugin's config.
func PluginFields() []Field { return new(Plugin).fields() }

func (p *Plugin) fields() []Field {
	tls := new(TLS)
	return []Field{
		ListField("controllers", &p.Controllers, "Address (`host:port`) of each controller's gRPC face.").mandatory(),
		StringField("fail", (*string)(&p.Fail), "What gates do once no controller has answered for `fail_after`: `open` starts where Nomad put the allocation, `closed` keeps waiting.").or(string(FailClosed)),
		DurationField("fail_after", &p.FailAfter, "How long no controller may answer before `fail` is followed.").or("30s"),
		StringField("state_dir", &p.StateDir, "Absolute directory for the state of running tasks and unreported starts; each task's own directory when not given, and then unreported starts do not survive the plugin."),
		StringField("cgroup_parent", &p.CgroupParent, "Control group, below the root of each hierarchy, that holds the groups of run tasks.").or("psg"),
		BlockField("tls", &p.TLS, tls, tls.fields(), "TLS to the controllers; plain text when not given."),
		StringField("token_file", &p.TokenFile, "File with the token to show to controllers that ask for one; a verified client certificate does as well."),
	}
}

func (t *TLS) fields() []Field {
	return []Field{
		StringField("ca", &t.CA, "PEM file of the authorities to trust; the host's when not given."),
		StringField("cert", &t.Cert, "PEM file of the client certificate."),
		StringField("key", &t.Key, "PEM file of its key."),
		StringField("server_name", &t.ServerName, "Name the controllers' certificate must carry; the address's host when not given."),
	}
}

// DecodePlugin reads the plugin's config. An error is an Errors, each of which
// names its field.
func DecodePlugin(config map[string]any) (Plugin, error) {
	var p Plugin
	errs := decode(p.fields(), config, "")
	if len(errs) == 0 {
		errs = p.check()
	}
	if err := errs.err(); err != nil {
		return Plugin{}, err
	}
	return p, nil
}

func (p *Plugin) check() Errors {
	var c checker
	c.require(len(p.Controllers) > 0, "controllers", "must list at least one address")
	for i, address := range p.Controllers {
		host, port, err := net.SplitHostPort(address)
		c.require(err == nil && host != "" && port != "", fmt.Sprintf("controllers[%d]", i), "must be host:port, got %q", address)
	}
	c.require(p.Fail == FailOpen || p.Fail == FailClosed, "fail", `must be "open" or "closed", got %q`, p.Fail)
	c.require(p.FailAfter >= 0, "fail_after", "must not be negative, got %v", p.FailAfter)
	c.require(p.StateDir == "" || filepath.IsAbs(p.StateDir), "state_dir", "must be absolute, got %q", p.StateDir)
	c.require(filepath.IsLocal(p.CgroupParent), "cgroup_parent", "must be a path below the hierarchy's root, got %q", p.CgroupParent)
	if p.TLS != nil {
		c.require((p.TLS.Cert == "") == (p.TLS.Key == ""), "tls", "cert and key must be given together")
	}
	return c.errs
}

// checker collects what is wrong with decoded values.
type checker struct{ errs Errors }

func (c *checker) require(ok bool, path, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, &FieldError{Path: path, Problem: fmt.Sprintf(format, args...)})
	}
}
