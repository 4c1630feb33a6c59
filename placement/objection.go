package placement

import (
	"fmt"

	"github.com/psgrid/psg"
)

// objection is one reason against one node: in general words, by which nodes
// are counted, and with what was seen on this node.
type objection struct {
	source, text string
	detail       string // appended to text
	weight       int64  // how far from fitting, in thousandths; a missing quality is far
	policy       bool   // policy denies it
}

// farAway is the weight of an objection that no freed room can lift.
const farAway = 1 << 20

func (o objection) general() psg.Reason { return psg.Reason{Source: o.source, Text: o.text} }
func (o objection) precise() psg.Reason { return psg.Reason{Source: o.source, Text: o.text + o.detail} }

// objections collects what is raised against a node: everything in words,
// everything without the details of the node, or, where only the verdict
// matters, no more than that there is something.
type objections struct {
	mode   detailMode
	raised bool
	list   []objection
}

type detailMode uint8

const (
	inFull detailMode = iota
	inBrief
	verdictOnly
)

// done reports whether looking further is pointless.
func (o *objections) done() bool { return o.mode == verdictOnly && o.raised }

// raise notes a quality that is missing.
func (o *objections) raise(source, format string, args ...any) {
	o.raised = true
	if o.mode != verdictOnly {
		o.list = append(o.list, objection{source: source, text: fmt.Sprintf(format, args...), weight: farAway})
	}
}

// seen notes a quality that is missing, with what the node has instead.
func (o *objections) seen(source, text, detail string) {
	o.raised = true
	if o.mode != verdictOnly {
		o.list = append(o.list, objection{source: source, text: text, detail: detail, weight: farAway})
	}
}

// short notes room that is missing, and how far it is from enough.
func (o *objections) short(source, text string, weight int64, format string, args ...any) {
	o.raised = true
	switch o.mode {
	case inFull:
		o.list = append(o.list, objection{source: source, text: text, detail: fmt.Sprintf(format, args...), weight: weight})
	case inBrief:
		o.list = append(o.list, objection{source: source, text: text, weight: weight})
	}
}

// denied notes that policy denies the node.
func (o *objections) denied(reason psg.Reason) {
	o.raised = true
	o.list = append(o.list, objection{source: reason.Source, text: reason.Text, weight: farAway, policy: true})
}
