package wire

import (
	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

var remedyKinds = enum[psg.RemedyKind, psgv1.RemedyKind]{
	psgv1.RemedyKind_REMEDY_KIND_ASK_LESS: psg.RemedyAskLess,
	psgv1.RemedyKind_REMEDY_KIND_DROP:     psg.RemedyDrop,
	psgv1.RemedyKind_REMEDY_KIND_STOP:     psg.RemedyStop,
	psgv1.RemedyKind_REMEDY_KIND_LIFT:     psg.RemedyLift,
}

func putRemedy(c *coder, r psg.Remedy) *psgv1.Remedy {
	return &psgv1.Remedy{Kind: remedyKinds.put(c, "kind", r.Kind), Node: string(r.Node), Ask: string(r.Ask), Text: r.Text}
}

func getRemedy(c *coder, r *psgv1.Remedy) psg.Remedy {
	return psg.Remedy{
		Kind: remedyKinds.get(c, "kind", r.GetKind()), Node: psg.NodeID(r.GetNode()),
		Ask: psg.RequestID(r.GetAsk()), Text: r.GetText(),
	}
}

func putIDs(ids []psg.RequestID) []string {
	var out []string
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}

func getIDs(ids []string) []psg.RequestID {
	var out []psg.RequestID
	for _, id := range ids {
		out = append(out, psg.RequestID(id))
	}
	return out
}
