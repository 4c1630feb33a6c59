package hclspec_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/psgrid/psg/hclspec"
)

func TestDecodePlugin_FillsDefaults(t *testing.T) {
	got, err := hclspec.DecodePlugin(object(t, `{"controllers": ["127.0.0.1:7650"]}`))
	want := hclspec.Plugin{Controllers: []string{"127.0.0.1:7650"}, Fail: hclspec.FailClosed, FailAfter: 30 * time.Second, CgroupParent: "psg"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecodePlugin_NamesTheFieldAndTheProblem(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                     `controllers: is required`,
		`{"controllers": []}`:    `controllers: must list at least one address`,
		`{"controllers": ["h"]}`: `controllers[0]: must be host:port, got "h"`,
		`{"controllers": ["h:1"], "fail": "ajar"}`:               `fail: must be "open" or "closed", got "ajar"`,
		`{"controllers": ["h:1"], "fail_after": "-1s"}`:          `fail_after: must not be negative, got -1s`,
		`{"controllers": ["h:1"], "state_dir": "state"}`:         `state_dir: must be absolute, got "state"`,
		`{"controllers": ["h:1"], "cgroup_parent": "../escape"}`: `cgroup_parent: must be a path below the hierarchy's root, got "../escape"`,
		`{"controllers": ["h:1"], "tls": {"cert": "c.pem"}}`:     `tls: cert and key must be given together`,
		`{"controllers": ["h:1"], "tls": {"servername": "x"}}`:   `tls.servername: unknown field; did you mean "server_name"?`,
	} {
		if _, err := hclspec.DecodePlugin(object(t, text)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}
