package shim

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/hashicorp/nomad/api"
)

// eventBatch is one line of Nomad's event stream: all events of one index. A
// heartbeat has none. The API package has a reader of its own, which loses what
// a job says wherever JSON and HCL name it differently.
type eventBatch struct{ Events []event }

type event struct {
	Topic   api.Topic
	Type    string
	Index   uint64
	Payload payload
}

type payload struct {
	Node       *api.Node
	Job        *api.Job
	Deleted    bool // the job was purged
	Allocation *allocation
}

const nodeDeregistration = "NodeDeregistration"

// stream reads events until its context ends.
type stream struct {
	body    io.ReadCloser
	decoder *json.Decoder
}

func openStream(ctx context.Context, client *api.Client) (*stream, error) {
	query := (&api.QueryOptions{Namespace: api.AllNamespacesNamespace}).WithContext(ctx)
	body, err := client.Raw().Response("/v1/event/stream?topic=Node&topic=Job&topic=Allocation", query)
	if err != nil {
		return nil, fmt.Errorf("open event stream: %w", err)
	}
	return &stream{body: body, decoder: json.NewDecoder(body)}, nil
}

func (s *stream) next() (eventBatch, error) {
	var batch eventBatch
	if err := s.decoder.Decode(&batch); err != nil {
		return eventBatch{}, fmt.Errorf("read event stream: %w", err)
	}
	return batch, nil
}

func (s *stream) close() { _ = s.body.Close() } // nothing was written that could be lost
