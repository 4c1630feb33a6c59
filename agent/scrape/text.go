package scrape

import (
	"bytes"
	"errors"
	"strconv"
	"time"
)

// sample is a line of the text format without its name. Its bytes are the
// line's.
type sample struct {
	labels []label
	value  float64
	at     time.Time // zero where the line does not say
}

type label struct{ name, value []byte }

// label returns a label's value, empty if there is none.
func (s *sample) label(name string) []byte {
	for _, l := range s.labels {
		if string(l.name) == name {
			return l.value
		}
	}
	return nil
}

// name cuts the name off a line.
func name(line []byte) (name, rest []byte) {
	if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
		return line[:end], line[end:]
	}
	return line, nil
}

var (
	errLabels = errors.New(`its labels are not {name="value",…}`)
	errValue  = errors.New("there is no number after it")
	errTime   = errors.New("what follows the number is no time in ms")
)

// maxLabels bounds what one line may have.
const maxLabels = 128

// parse reads what follows the name on a line of Prometheus's text format 0.0.4:
//
//	{gpu="0",UUID="GPU-…"} 40 1395066363000
//
// It may write to the line, where a value is escaped.
func parse(rest []byte) (sample, error) {
	var s sample
	rest = bytes.TrimLeft(rest, " \t")
	if len(rest) > 0 && rest[0] == '{' {
		var ok bool
		if s.labels, rest, ok = labels(rest[1:]); !ok {
			return sample{}, errLabels
		}
	}
	words := bytes.Fields(rest)
	if len(words) == 0 {
		return sample{}, errValue
	}
	var err error
	if s.value, err = strconv.ParseFloat(string(words[0]), 64); err != nil {
		return sample{}, errValue
	}
	switch len(words) {
	case 1:
		return s, nil
	case 2:
		ms, err := strconv.ParseInt(string(words[1]), 10, 64)
		if err != nil {
			return sample{}, errTime
		}
		s.at = time.UnixMilli(ms)
		return s, nil
	}
	return sample{}, errTime
}

func labels(text []byte) (list []label, rest []byte, ok bool) {
	for {
		text = bytes.TrimLeft(text, " \t")
		if len(text) > 0 && text[0] == '}' {
			return list, text[1:], true
		}
		end := bytes.IndexByte(text, '=')
		if end <= 0 || len(list) == maxLabels {
			return nil, nil, false
		}
		l := label{name: bytes.TrimRight(text[:end], " \t")}
		text = bytes.TrimLeft(text[end+1:], " \t")
		if l.value, text, ok = quoted(text); !ok {
			return nil, nil, false
		}
		list = append(list, l)
		text = bytes.TrimLeft(text, " \t")
		switch {
		case len(text) > 0 && text[0] == ',':
			text = text[1:]
		case len(text) == 0 || text[0] != '}':
			return nil, nil, false
		}
	}
}

// quoted reads a value between quotation marks, and undoes its escapes in place.
func quoted(text []byte) (value, rest []byte, ok bool) {
	if len(text) == 0 || text[0] != '"' {
		return nil, nil, false
	}
	text = text[1:]
	n := 0
	for i := 0; i < len(text); i, n = i+1, n+1 {
		switch c := text[i]; {
		case c == '"':
			return text[:n], text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if text[n] = text[i]; text[i] == 'n' {
				text[n] = '\n'
			}
		default:
			text[n] = c
		}
	}
	return nil, nil, false
}
