// Command psg is PSG's controller and its command line.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/cli"
)

// version is set by the linker in a release.
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends what does not heed the first
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// unknownCommand is what package cli returns for one, having printed the list.
const unknownCommand = 127

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := &cli.CLI{
		Name:         "psg",
		Version:      version,
		Args:         args,
		Commands:     commands(ctx, stdout, stderr),
		Autocomplete: true,
		HelpFunc:     cli.BasicHelpFunc("psg"),
		HelpWriter:   stdout,
		ErrorWriter:  stderr,
	}
	code, err := c.Run()
	switch {
	case err != nil:
		fmt.Fprintln(stderr, err)
		return exitFailure
	case code == unknownCommand:
		fmt.Fprintf(stderr, "psg: no command %q\n", c.Subcommand())
		return exitUsage
	}
	return code
}

func commands(ctx context.Context, stdout, stderr io.Writer) map[string]cli.CommandFactory {
	factories := map[string]cli.CommandFactory{}
	for _, c := range []*command{
		controllerCommand(),
		devCommand(),
		jobTranslateCommand(),
		jobExplainCommand(),
		jobPlanCommand(),
		jobPreemptCommand(),
		jobRunCommand(),
		jobStatusCommand(),
		allocExplainCommand(),
		auditListCommand(),
		auditVerifyCommand(),
		busCredentialsCommand(),
		nodeOrderCommand(),
		nodeRebalanceCommand(),
		nodeReportsCommand(),
		nodeStatusCommand(),
		policyBuildCommand(),
		policyCheckCommand(),
		policyDiffCommand(),
		policyEvalCommand(),
		policyReloadCommand(),
		policyRollbackCommand(),
		policySignCommand(),
		policyStatusCommand(),
		policyTestCommand(),
		shimDetachCommand(),
		shimProxyCommand(),
		simulateOpenbCommand(),
		simulateRoadefCommand(),
		statusCommand(),
		versionCommand(),
	} {
		c.ctx, c.stdout, c.stderr = ctx, stdout, stderr
		factories[c.name] = func() (cli.Command, error) { return c, nil }
	}
	for _, f := range families(stderr) {
		factories[f.name] = func() (cli.Command, error) { return f, nil }
	}
	return factories
}
