package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The exit codes, of every command.
const (
	exitOK      = 0
	exitFailure = 1 // it could not be done, or the answer is no
	exitUsage   = 2 // the command line is wrong
)

// errNo is a negative answer that the command has printed already.
var errNo = errors.New("no")

// command is one subcommand. It implements cli.Command and completion.
type command struct {
	name     string // "job translate"
	args     string // "[-json] FILE"
	synopsis string // one line
	help     string // what it does and prints
	define   func(*flag.FlagSet)
	run      func(c *command, args []string) error
	files    string // patterns that complete its arguments, with spaces between; none if empty
	ids      lister // of what completes its arguments, if no files do; nil for nothing
	failure  int    // the exit code of any failure, if it is another than usual
	exits    string // what its exit codes mean, if they are others than usual

	ctx            context.Context
	stdout, stderr io.Writer
}

// exitError is an answer that has an exit code of its own, and that the command
// has printed already.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// usageError is a wrong command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func (c *command) flagSet() *flag.FlagSet {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	if c.define != nil {
		c.define(flags)
	}
	return flags
}

// Run parses args, with flags before or after the operands, and runs the command.
func (c *command) Run(args []string) int {
	operands, err := parse(c.flagSet(), args)
	if err == nil && slices.Contains(operands, "") { // of a variable that is not set
		err = usagef("an argument is empty")
	}
	if err == nil {
		err = c.run(c, operands)
	}
	var usage usageError
	var exit exitError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNo):
		return exitFailure
	case errors.As(err, &exit):
		return int(exit)
	case errors.As(err, &usage):
		fmt.Fprintf(harmless{c.stderr}, "psg %s: %v\nUsage: psg %s %s\n", c.name, err, c.name, c.args)
		return cmp.Or(c.failure, exitUsage)
	default:
		fmt.Fprintf(harmless{c.stderr}, "psg %s: %v\n", c.name, err)
		return cmp.Or(c.failure, exitFailure)
	}
}

func parse(flags *flag.FlagSet, args []string) (operands []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, usageError{err}
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return operands, nil
		}
		if before := len(args) - len(rest); before > 0 && args[before-1] == "--" {
			return append(operands, rest...), nil
		}
		operands, args = append(operands, rest[0]), rest[1:]
	}
}

// Synopsis is the line in the list of commands.
func (c *command) Synopsis() string { return c.synopsis }

// Help is what -h prints.
func (c *command) Help() string {
	var out strings.Builder
	fmt.Fprintf(&out, "Usage: psg %s %s\n\n%s\n", c.name, c.args, strings.TrimSpace(c.help))
	flags := c.flagSet()
	any := false
	flags.VisitAll(func(*flag.Flag) { any = true })
	if any {
		out.WriteString("\nOptions:\n")
		flags.SetOutput(&out)
		flags.PrintDefaults()
	}
	fmt.Fprintf(&out, "\nExit code: %s.\n", cmp.Or(c.exits, "0 done, 1 failed or the answer is no, 2 wrong command line"))
	return out.String()
}
