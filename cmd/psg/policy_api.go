package main

import (
	"flag"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/psgrid/psg"
	"github.com/psgrid/psg/controller"
	"github.com/psgrid/psg/policies"
	"github.com/psgrid/psg/rpc"
)

// policyStatus is what a controller says of the policies it decides by.
type policyStatus struct {
	Bundle   psg.Bundle `json:"bundle"`
	Warnings []string   `json:"warnings,omitempty"`
	policies.Status
}

func (r *rulebook) status() policyStatus {
	set := r.store.Current()
	return policyStatus{r.bundle(), set.Warnings(), set.Status()}
}

// withPolicies adds the policies in force to the controller's REST face:
//
//	GET  /v1/policy            policyStatus
//	POST /v1/policy/reload     {} -> policyStatus, of the bundle as it is now in its directory
//	POST /v1/policy/rollback   {} -> policyStatus, of the bundle that was in force before
func withPolicies(rest http.Handler, rules *rulebook, decider *controller.Controller, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", rest)
	mux.HandleFunc("GET /v1/policy", func(w http.ResponseWriter, _ *http.Request) {
		rpc.WriteJSON(w, http.StatusOK, rules.status())
	})
	post := func(path string, change func() error) {
		mux.Handle("POST /v1/policy/"+path, jsonOnly(func(w http.ResponseWriter, r *http.Request) {
			if err := rules.replace(r.Context(), change, decider, log); err != nil {
				rpc.WriteJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
				return
			}
			rpc.WriteJSON(w, http.StatusOK, rules.status())
		}))
	}
	post("reload", rules.reload)
	post("rollback", rules.store.Rollback)
	return mux
}

func (s policyStatus) writeText(w io.Writer) error {
	p := &printer{w: w}
	p.line("Bundle\t%s", s.Bundle.Name)
	p.line("Version\t%s", s.Bundle.Version)
	p.line("Digest\t%s", s.Bundle.Digest)
	p.line("Pairs\t%d decided, %d compared with OPA, %d differed", s.Pairs, s.Checked, s.Differ)
	for _, one := range s.Policies {
		note := ""
		if one.Quarantined {
			note = ", quarantined: it differed from OPA"
		}
		p.line("Policy\t%s: %s, %s%s", one.Name, one.Mode, one.Tier, note)
	}
	for _, warning := range s.Warnings {
		p.line("Warning\t%s", warning)
	}
	return p.err
}

func policyStatusCommand() *command {
	return policyInForce("policy status", "Show the policies that a controller decides by", `
Prints the bundle in force, the tier that each policy is evaluated in, and how
many of the decisions were compared with OPA.`, http.MethodGet, "")
}

func policyReloadCommand() *command {
	return policyInForce("policy reload", "Have a controller load its policies anew", `
Loads the bundle as it is now in the controller's directory, as SIGHUP does. A
faulty bundle, or one that is not signed as it must be, changes nothing. Each
controller has a directory of its own: tell them all, and the leader first.`, http.MethodPost, "/reload")
}

func policyRollbackCommand() *command {
	return policyInForce("policy rollback", "Have a controller return to the policies before the last reload", `
Puts the bundle in force that was before the last reload; a second rollback undoes
the first. The controller's directory stays as it is: a reload or a restart loads
what is in it. Each controller has policies of its own: tell them all, and the
leader first.`, http.MethodPost, "/rollback")
}

// policyInForce is a command that a controller answers with what is in force.
func policyInForce(name, synopsis, help, method, path string) *command {
	var at address
	var out output
	return &command{
		name: name, args: "[-json | -t TEMPLATE]", synopsis: synopsis, help: help,
		define: func(flags *flag.FlagSet) {
			at.define(flags)
			out.define(flags)
		},
		run: func(c *command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected %q", args[0])
			}
			first, _, _ := strings.Cut(string(at), ",")
			client := &http.Client{Timeout: time.Minute, Transport: tokenBearer{}} // a large bundle takes its time
			var status policyStatus
			if err := exchange(c.ctx, client, method, strings.TrimSuffix(first, "/")+"/v1/policy"+path, []byte("{}"), &status); err != nil {
				return err
			}
			return out.print(c.stdout, status, status.writeText)
		},
	}
}
