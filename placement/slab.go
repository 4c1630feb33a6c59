package placement

import "github.com/psgrid/psg"

// slabs hand out memory for what one Solve makes by the hundred thousand, many
// at a time: it all becomes garbage together.
type slabs struct {
	size       int // placements in one slab
	placements []held
	scores     []psg.ScorePart
}

const mostPerSlab = 512

func (s *slabs) held() *held {
	if len(s.placements) == 0 {
		s.placements = make([]held, s.size)
	}
	h := &s.placements[0]
	s.placements = s.placements[1:]
	return h
}

// score lists a score's parts. The list can't grow into its neighbour.
func (s *slabs) score(p *parts) []psg.ScorePart {
	if cap(s.scores)-len(s.scores) < int(partCount) {
		s.scores = make([]psg.ScorePart, 0, max(s.size, int(partCount)))
	}
	from := len(s.scores)
	s.scores = p.appendTo(s.scores)
	if len(s.scores) == from {
		return nil
	}
	return s.scores[from:len(s.scores):len(s.scores)]
}
