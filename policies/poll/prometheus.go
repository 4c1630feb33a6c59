package poll

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/psgrid/psg/hclspec"
)

// answer is what Prometheus' HTTP API answers to a query.
type answer struct {
	Status string `json:"status"`
	Error  string `json:"error"`
	Data   struct {
		Type   string          `json:"resultType"`
		Result json.RawMessage `json:"result"`
	} `json:"data"`
}

// series is one element of a vector or matrix.
type series struct {
	Metric map[string]string `json:"metric"`
	Value  *sample           `json:"value"`
	Values []sample          `json:"values"`
}

// sample is [seconds, "value"].
type sample struct {
	at    float64
	value float64
}

func (s *sample) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &[]any{&s.at, &text}); err != nil {
		return err
	}
	value, err := strconv.ParseFloat(text, 64)
	s.value = value
	return err
}

// query asks a Prometheus: an instant query, or one over a range up to now. It
// gives an object from the values of the key label to a number, or to a list of
// {at, value}, oldest first, at in Unix nanoseconds. What is not a number is
// left out.
func (p *Poller) query(ctx context.Context, source hclspec.Source, now time.Time) (any, error) {
	values, path := url.Values{"query": {source.Query}}, "/api/v1/query"
	if source.Range > 0 {
		path = "/api/v1/query_range"
		values.Set("start", seconds(now.Add(-source.Range)))
		values.Set("end", seconds(now))
		values.Set("step", strconv.FormatFloat(source.Step.Seconds(), 'f', -1, 64))
	} else {
		values.Set("time", seconds(now))
	}
	text, err := p.get(ctx, strings.TrimSuffix(source.URL, "/")+path+"?"+values.Encode())
	if err != nil {
		return nil, err
	}
	var got answer
	if err := json.Unmarshal(text, &got); err != nil {
		return nil, fmt.Errorf("decode the answer: %w", err)
	}
	want := "vector"
	if source.Range > 0 {
		want = "matrix"
	}
	if got.Status != "success" || got.Data.Type != want {
		return nil, fmt.Errorf("prometheus answers status %q, result type %q, want a %s: %s", got.Status, got.Data.Type, want, got.Error)
	}
	var list []series
	if err := json.Unmarshal(got.Data.Result, &list); err != nil {
		return nil, fmt.Errorf("decode the answer of prometheus: %w", err)
	}
	return keyed(list, source.Key)
}

func seconds(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }

// keyed finds each series by its key label.
func keyed(list []series, key string) (map[string]any, error) {
	out := map[string]any{}
	for _, s := range list {
		name, ok := s.Metric[key]
		if !ok {
			return nil, fmt.Errorf("series %v has no label %q, which the source's key names", s.Metric, key)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("two series have %s=%q: aggregate them in the query", key, name)
		}
		if value, ok := s.content(); ok {
			out[name] = value
		}
	}
	return out, nil
}

// content is a number, or the list of a range; false when it is not a number.
func (s series) content() (any, bool) {
	if s.Value != nil {
		return s.Value.value, finite(s.Value.value)
	}
	points := []any{}
	for _, v := range s.Values {
		if finite(v.value) {
			points = append(points, map[string]any{"at": int64(v.at*1000) * int64(time.Millisecond), "value": v.value})
		}
	}
	return points, true
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
