package main

import (
	"cmp"
	"flag"
	"fmt"

	"github.com/psgrid/psg/policies"
)

// keyFlags name a key that bundles are signed with or verified by.
type keyFlags struct{ name, file, algorithm string }

func (k *keyFlags) define(flags *flag.FlagSet, name, what string) {
	k.name = name
	flags.StringVar(&k.file, name, "", "`file` of the "+what)
	flags.StringVar(&k.algorithm, name+"-alg", "", "`algorithm` of -"+name+", such as ES256; default is by its kind, RS256 for RSA; a secret needs one, such as HS256")
}

// read is the zero key when none is named.
func (k *keyFlags) read() (policies.Key, error) {
	switch {
	case k.file != "":
		return policies.ReadKey(k.file, k.algorithm)
	case k.algorithm != "":
		return policies.Key{}, usagef("-%s-alg is of -%s, which is missing", k.name, k.name)
	}
	return policies.Key{}, nil
}

func policySignCommand() *command {
	var key keyFlags
	return &command{
		name: "policy sign", args: "-key FILE [-key-alg ALGORITHM] DIR",
		synopsis: "Sign a policy bundle as OPA does",
		help: `
Loads the bundle as psg policy check does, and writes DIR/.signatures.json: a JSON
web token with the hashes of all its files, in OPA's format. A controller started
with -policy-key takes no bundle but one signed with that key.`,
		define: func(flags *flag.FlagSet) {
			key.define(flags, "key", "private key in PEM, or secret, to sign with")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 || key.file == "" {
				return usagef("want one bundle directory and -key")
			}
			read, err := key.read()
			if err != nil {
				return err
			}
			if err := policies.Sign(args[0], read); err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "signed %s with %s\n", args[0], read)
			return nil
		},
	}
}

func policyBuildCommand() *command {
	var key keyFlags
	var output string
	return &command{
		name: "policy build", args: "[-key FILE [-key-alg ALGORITHM]] [-o FILE] DIR",
		synopsis: "Make a policy bundle into one archive, and sign it",
		help: `
Loads the bundle as psg policy check does, and writes it to a gzipped tar archive,
which controllers and OPA read. The same files make the same archive. With -key
it is signed as by psg policy sign; a signature that DIR has is kept otherwise.
The archive must be outside of DIR; it replaces a regular file as a whole.`,
		define: func(flags *flag.FlagSet) {
			key.define(flags, "key", "private key in PEM, or secret, to sign with")
			flags.StringVar(&output, "o", "", "`file` to write; default is bundle.tar.gz")
		},
		run: func(c *command, args []string) error {
			if len(args) != 1 {
				return usagef("want one bundle directory, have %d", len(args))
			}
			read, err := key.read()
			if err != nil {
				return err
			}
			output = cmp.Or(output, "bundle.tar.gz")
			if err := policies.Build(args[0], output, read); err != nil {
				return err
			}
			fmt.Fprintf(c.stdout, "built %s\n", output)
			return nil
		},
	}
}
