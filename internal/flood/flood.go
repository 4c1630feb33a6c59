// Package flood keeps one sender from filling a log: it says which lines are
// logged, and how many were left out before one. It logs nothing itself and reads
// no clock. Whoever logs what others send calls it.
package flood

import "time"

// The bounds of what is logged: in each span so many lines.
const (
	span  = time.Second
	lines = 20
)

// Limit is about the lines of one kind. The zero value is ready; it is for one
// goroutine at a time.
type Limit struct {
	began time.Time // of the span
	n     int       // lines in it
	left  int       // out since the last line
}

// Take reports whether another line is logged now, and how many were left out since
// the last one that was.
func (l *Limit) Take(now time.Time) (left int, ok bool) {
	if passed := now.Sub(l.began); passed >= span || passed < 0 {
		l.began, l.n = now, 0
	}
	if l.n == lines {
		l.left++
		return 0, false
	}
	l.n++
	left, l.left = l.left, 0
	return left, true
}
