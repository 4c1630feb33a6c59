package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/api"

	"github.com/psgrid/psg"
)

// requestJob reads a job as JSON. One that Nomad does not have, or cannot show, is
// psg.ErrUnknown; anything else is psg.ErrUnavailable.
func requestJob(ctx context.Context, client *api.Client, id psg.JobID) (json.RawMessage, error) {
	var answer json.RawMessage
	_, err := client.Raw().Query(jobPath(id.Job), &answer, query(ctx, id.Namespace))
	switch {
	case err != nil && (notFound(err) || noSuchMethod(err)):
		return nil, fmt.Errorf("read job %q: %w to nomad", id.Job, psg.ErrUnknown)
	case err != nil:
		return nil, fmt.Errorf("read job %q: %w: %w", id.Job, psg.ErrUnavailable, err)
	}
	return jobIn(id.Job, answer)
}

// jobPath is where Nomad shows a job. It takes the end of some IDs, "a/plan", for
// what is asked of a job "a"; of these it shows the versions.
func jobPath(id string) string {
	path := "/v1/job/" + url.PathEscape(id)
	if endsInAction(id) {
		path += "/versions"
	}
	return path
}

// jobIn is the job in what Nomad shows at its path: its newest version, and none but
// it, which a later Nomad with more actions might show.
func jobIn(id string, answer json.RawMessage) (json.RawMessage, error) {
	if endsInAction(id) {
		var all struct{ Versions []json.RawMessage }
		if err := json.Unmarshal(answer, &all); err != nil {
			return nil, fmt.Errorf("read versions of job %q: %w: %w", id, psg.ErrUnavailable, err)
		}
		if len(all.Versions) > 0 {
			answer = all.Versions[0]
		}
	}
	var shown struct{ ID string }
	if err := json.Unmarshal(answer, &shown); err != nil || shown.ID != id {
		return nil, fmt.Errorf("read job %q: %w to nomad, which shows something else there", id, psg.ErrUnknown)
	}
	return answer, nil
}

// jobActions end the paths below /v1/job/ that are not of a job itself, as Nomad
// tells them apart: by the end of the decoded path, whatever the ID holds.
var jobActions = [...]string{"/plan", "/scale", "/revert", "/dispatch", "/periodic/force",
	"/evaluate", "/allocations", "/evaluations", "/summary", "/dispatch/payload", "/versions",
	"/deployments", "/deployment", "/stable", "/services", "/submission", "/actions", "/action", "/tag"}

func endsInAction(path string) bool {
	return slices.ContainsFunc(jobActions[:], func(action string) bool { return strings.HasSuffix(path, action) })
}

func noSuchMethod(err error) bool {
	var answer api.UnexpectedResponseError
	return errors.As(err, &answer) && answer.StatusCode() == http.StatusMethodNotAllowed
}
