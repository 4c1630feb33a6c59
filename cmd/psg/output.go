package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"
	"text/template"

	"github.com/psgrid/psg/rpc"
)

// output is how a command prints: for people, as JSON, or by a template over
// the same value.
type output struct {
	json     bool
	template *template.Template // nil without one
}

// define adds the flags. What is wrong with them is found before the command has
// done anything.
func (o *output) define(flags *flag.FlagSet) {
	*o = output{}
	flags.BoolFunc("json", "print JSON", func(value string) (err error) {
		if o.json, err = strconv.ParseBool(value); err != nil {
			return errors.New("neither true nor false")
		}
		return o.exclude()
	})
	flags.Func("t", "print by a Go `template` over the JSON value's Go form", func(text string) (err error) {
		if o.template, err = template.New("-t").Parse(text); err != nil {
			return err
		}
		return o.exclude()
	})
}

func (o *output) exclude() error {
	if o.json && o.template != nil {
		return errors.New("-json and -t exclude each other")
	}
	return nil
}

// people reports whether what is printed is for people, not for programs.
func (o *output) people() bool { return !o.json && o.template == nil }

// print writes value in the form asked for; text writes it for people.
func (o *output) print(w io.Writer, value any, text func(io.Writer) error) error {
	switch {
	case o.json:
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	case o.template != nil:
		if err := o.template.Execute(w, value); err != nil {
			return err
		}
		_, err := fmt.Fprintln(w)
		return err
	}
	table := tabwriter.NewWriter(harmless{w}, 0, 0, 2, ' ', 0)
	if err := text(table); err != nil {
		return err
	}
	return table.Flush()
}

// address is where the controller's JSON face is.
type address string

func (a *address) define(flags *flag.FlagSet) {
	flags.StringVar((*string)(a), "address", cmp.Or(os.Getenv("PSG_ADDR"), "http://127.0.0.1:4681"),
		"`URL` of a controller's REST face, or several with commas: the first that answers is asked; default is PSG_ADDR")
}

func (a address) client() (*rpc.RESTClient, error) {
	client, err := rpc.NewRESTClient(string(a))
	if err != nil {
		return nil, err
	}
	return client.Over(tokenBearer{}), nil
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
