package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/psgrid/psg/bus"
	"github.com/psgrid/psg/bus/credentials"
)

func busCredentialsCommand() *command {
	var issuer, out string
	var good time.Duration
	return &command{
		name: "bus credentials", args: "-issuer FILE [-for DURATION] [-out FILE] NAME",
		synopsis: "Issue credentials for the embedded NATS server",
		help: `
Issues a NATS credentials file in a name: agent/NODE for the agent of a node,
which may publish that node's telemetry and hear its orders, and nothing else;
auditor, controller or operator. psg-agent and psg take it as -nats-creds.

The issuer is issuer.nk in a controller's data directory, or what its -nats-issuer
names. Whoever has it can issue any credentials; nobody else needs it. To take
credentials back before they end, replace the issuer, issue anew, and start the
controllers again.`,
		define: func(flags *flag.FlagSet) {
			flags.StringVar(&issuer, "issuer", "", "`file` of the issuer's key")
			flags.StringVar(&out, "out", "", "`file` to write, for its owner alone; default is standard output")
			flags.DurationVar(&good, "for", 0, "how long they are good; 0 means for ever")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 || issuer == "" || good < 0 {
				return usagef("want -issuer, one name, and no -for below zero")
			}
			if _, err := bus.PermissionsOf(args[0]); err != nil || args[0] == bus.RoleLocal {
				return usagef("%q is not agent/NODE, auditor, controller or operator", args[0])
			}
			signer, err := credentials.Open(issuer)
			if err != nil {
				return err
			}
			var until time.Time
			if good > 0 {
				until = time.Now().Add(good)
			}
			content, err := signer.Issue(args[0], until)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = c.stdout.Write(content)
				return err
			}
			if err := os.WriteFile(out, content, 0o600); err != nil {
				return fmt.Errorf("write credentials: %w", err)
			}
			return nil
		},
	}
}
