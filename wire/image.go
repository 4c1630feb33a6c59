package wire

import (
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/psgrid/psg"
	psgv1 "github.com/psgrid/psg/wire/psg/v1"
)

// partSize is how many items one part of an image holds at most.
const partSize = 2000

// EncodeImage writes an image.
func EncodeImage(image psg.Image) ([]byte, error) {
	parts, err := inParallel(cut(image), func(part psg.Image) ([]byte, error) {
		var c coder
		return marshal(&c, "image", &psgv1.ImagePart{
			Nodes:     each(&c, "nodes", part.Nodes, putNode),
			Workloads: each(&c, "workloads", part.Workloads, putWorkload),
			Asks:      each(&c, "asks", part.Asks, putAskStatus),
		})
	})
	if err != nil {
		return nil, err
	}
	var c coder
	return marshal(&c, "image", &psgv1.Image{
		Sequence: image.Sequence, Epoch: uint64(image.Epoch), Leader: image.Leader, Parts: parts,
		Bundle: putBundle(&c, image.Bundle),
	})
}

// DecodeImage reads what EncodeImage wrote.
func DecodeImage(data []byte) (psg.Image, error) {
	var whole psgv1.Image
	if err := unmarshal(data, "image", &whole); err != nil {
		return psg.Image{}, err
	}
	parts, err := inParallel(whole.GetParts(), func(data []byte) (psg.Image, error) {
		return decode(data, "image", &psgv1.ImagePart{}, func(c *coder, part *psgv1.ImagePart) psg.Image {
			return psg.Image{
				Nodes:     each(c, "nodes", part.GetNodes(), getNode),
				Workloads: each(c, "workloads", part.GetWorkloads(), getWorkload),
				Asks:      each(c, "asks", part.GetAsks(), getAskStatus),
			}
		})
	})
	image := psg.Image{
		Sequence: whole.GetSequence(), Epoch: psg.Epoch(whole.GetEpoch()), Leader: whole.GetLeader(),
		Bundle: getBundle(nil, whole.GetBundle()),
	}
	for _, part := range parts {
		image.Nodes = append(image.Nodes, part.Nodes...)
		image.Workloads = append(image.Workloads, part.Workloads...)
		image.Asks = append(image.Asks, part.Asks...)
	}
	return image, err
}

// cut divides what an image holds into parts.
func cut(image psg.Image) []psg.Image {
	var parts []psg.Image
	for nodes := range slices.Chunk(image.Nodes, partSize) {
		parts = append(parts, psg.Image{Nodes: nodes})
	}
	for workloads := range slices.Chunk(image.Workloads, partSize) {
		parts = append(parts, psg.Image{Workloads: workloads})
	}
	for asks := range slices.Chunk(image.Asks, partSize) {
		parts = append(parts, psg.Image{Asks: asks})
	}
	return parts
}

// inParallel converts a list on all processors.
func inParallel[A, B any](in []A, convert func(A) (B, error)) ([]B, error) {
	out := make([]B, len(in))
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, item := range in {
		group.Go(func() (err error) {
			if out[i], err = convert(item); err != nil {
				return fmt.Errorf("part %d: %w", i, err)
			}
			return nil
		})
	}
	return out, group.Wait()
}

func putAskStatus(c *coder, s *psg.AskStatus) *psgv1.AskStatus {
	return &psgv1.AskStatus{
		Ask:       put(c, "ask", s.Ask, putAsk),
		State:     states.put(c, "state", s.State),
		Since:     putTime(c, "since", s.Since),
		Sequence:  s.Sequence,
		Placement: putOptional(c, "placement", s.Placement, putPlacement),
		Refusal:   putOptional(c, "refusal", s.Refusal, putRefusal),
		Reason:    s.Reason,
	}
}

func getAskStatus(c *coder, s *psgv1.AskStatus) *psg.AskStatus {
	return &psg.AskStatus{
		Ask:       get(c, "ask", s.GetAsk(), getAsk),
		State:     states.get(c, "state", s.GetState()),
		Since:     getTime(c, "since", s.GetSince()),
		Sequence:  s.GetSequence(),
		Placement: getOptional(c, "placement", s.GetPlacement(), getPlacement),
		Refusal:   getOptional(c, "refusal", s.GetRefusal(), getRefusal),
		Reason:    s.GetReason(),
	}
}
