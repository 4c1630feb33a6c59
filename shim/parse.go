package shim

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// document is job JSON, decoded.
type document struct {
	root    string // path of the job within the input: "Job", or empty for a bare job
	job     *api.Job
	request *api.JobRegisterRequest // nil for a bare job
	unknown []Loss
}

// parse reads a bare job or one wrapped as {"Job": …}.
func parse(data []byte) (document, error) {
	if len(data) > maxInput {
		return document{}, Problems{{Text: fmt.Sprintf("%d bytes of JSON are more than %d", len(data), maxInput)}}
	}
	if wrapped(data) {
		return parseRequest(data)
	}
	d := document{job: new(api.Job)}
	var err error
	if d.unknown, err = decode(data, d.job); err != nil {
		return document{}, err
	}
	return d, nil
}

func parseRequest(data []byte) (document, error) {
	request := new(api.JobRegisterRequest)
	unknown, err := decode(data, request)
	if err != nil {
		return document{}, err
	}
	if request.Job == nil {
		return document{}, Problems{{"Job", "is null"}}
	}
	return document{root: "Job", job: request.Job, request: request, unknown: unknown}, nil
}

func decode(data []byte, into any) ([]Loss, error) {
	unknown, err := scan(data, reflect.TypeOf(into))
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, Problems{{Text: err.Error()}}
	}
	return unknown, nil
}

// wrapped reports whether the input is an object with a Job, which a bare job
// never has. Input that is no JSON at all is left to scan, which says where.
func wrapped(data []byte) bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return false
	}
	for key := range top {
		if strings.EqualFold(key, "Job") {
			return true
		}
	}
	return false
}
