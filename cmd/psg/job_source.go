package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// jobSource is a job file, with the values of its variables.
type jobSource struct {
	variables list
	files     list
}

// list is a flag that may be given several times.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds one.
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

func (s *jobSource) define(flags *flag.FlagSet) {
	flags.Var(&s.variables, "var", "`name=value` of a variable of the job file; may be repeated")
	flags.Var(&s.files, "var-file", "`file` with values of the job file's variables; may be repeated")
}

// read reads a job from a file, or from standard input for "-": job JSON as it
// is, HCL as Nomad parses it. The second value is the source that Nomad keeps
// beside the job.
func (s *jobSource) read(client *api.Client, file string) (*api.Job, *api.JobSubmission, error) {
	data, err := readFile(file)
	if err != nil {
		return nil, nil, err
	}
	if bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		job, err := jobOfJSON(data)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", sourceName(file), err)
		}
		return job, &api.JobSubmission{Source: string(data), Format: "json"}, nil
	}
	values, flags, err := s.values(string(data))
	if err != nil {
		return nil, nil, err
	}
	asWritten := values
	for _, name := range sortedKeys(flags) {
		values += fmt.Sprintf("%s = %s\n", name, expression(flags[name]))
	}
	job, err := client.Jobs().ParseHCLOpts(&api.JobsParseRequest{JobHCL: string(data), Variables: values})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", sourceName(file), told(err))
	}
	return job, &api.JobSubmission{Source: string(data), Format: "hcl2", VariableFlags: flags, Variables: asWritten}, nil
}

// jobOfJSON reads a bare job, or one wrapped as a registration.
func jobOfJSON(data []byte) (*api.Job, error) {
	var wrapped struct{ Job *api.Job }
	if err := json.Unmarshal(data, &wrapped); err != nil {
		return nil, fmt.Errorf("read job JSON: %w", err)
	}
	job := wrapped.Job
	if job == nil {
		job = new(api.Job)
		if err := json.Unmarshal(data, job); err != nil {
			return nil, fmt.Errorf("read job JSON: %w", err)
		}
	}
	if job.ID == nil || *job.ID == "" {
		return nil, fmt.Errorf("read job JSON: it has no ID")
	}
	return job, nil
}

// declared is a variable that a job file declares.
var declared = regexp.MustCompile(`(?m)^\s*variable\s+"([^"]+)"`)

// values are the contents of the variable files, and what flags and NOMAD_VAR_
// variables say beyond them: a flag goes before the environment. An environment
// variable that the file does not declare is not for it.
func (s *jobSource) values(source string) (files string, flags map[string]string, err error) {
	flags = map[string]string{}
	for _, match := range declared.FindAllStringSubmatch(source, -1) {
		if value, set := os.LookupEnv("NOMAD_VAR_" + match[1]); set {
			flags[match[1]] = value
		}
	}
	for _, one := range s.variables {
		name, value, found := strings.Cut(one, "=")
		if !found || strings.TrimSpace(name) == "" {
			return "", nil, usagef("-var %q is not name=value", one)
		}
		flags[strings.TrimSpace(name)] = value
	}
	for _, name := range s.files {
		data, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		files += string(data) + "\n"
	}
	return files, flags, nil
}

// expression is a value from the command line in HCL: a list or an object as it
// is, anything else as a string, which HCL turns into a number or bool where the
// variable is one.
func expression(value string) string {
	if trimmed := strings.TrimSpace(value); strings.HasPrefix(trimmed, "[") || strings.HasPrefix(trimmed, "{") {
		return value
	}
	quoted := new(strings.Builder)
	quoted.WriteByte('"')
	for _, r := range value {
		switch r {
		case '"', '\\':
			quoted.WriteRune('\\')
			quoted.WriteRune(r)
		case '\n':
			quoted.WriteString(`\n`)
		case '\r':
			quoted.WriteString(`\r`)
		case '\t':
			quoted.WriteString(`\t`)
		default:
			quoted.WriteRune(r)
		}
	}
	quoted.WriteByte('"')
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(quoted.String())
}
