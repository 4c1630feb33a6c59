package shim

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// send forwards a registration and adds PSG's warnings to the answer. It
// reports whether Nomad took it.
func (p *Proxy) send(w http.ResponseWriter, r *http.Request, reg *registration, job *api.Job) bool {
	body, err := reg.body(job)
	if err != nil {
		http.Error(w, "psg: "+err.Error(), http.StatusInternalServerError)
		return false
	}
	return p.relay(w, r, body, reg.warnings)
}

// asSent sends on, as it came, a job of a namespace in which the controllers
// place nothing, and says so.
func (p *Proxy) asSent(w http.ResponseWriter, r *http.Request, reg *registration) {
	p.relay(w, r, reg.sent, []string{reg.outside})
}

// relay is forward, with PSG's warnings added to the answer.
func (p *Proxy) relay(w http.ResponseWriter, r *http.Request, body []byte, warnings []string) bool {
	answer := &recorder{header: http.Header{}}
	plain := r.Clone(r.Context())
	plain.Header.Del("Accept-Encoding") // the answer is read here
	p.forward(answer, plain, body)
	answer.warn(warnings)
	answer.replay(w)
	return answer.code == http.StatusOK
}

// recorder keeps an answer of Nomad's so that it can be changed.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *recorder) Header() http.Header { return a.header }

func (a *recorder) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.code = code
	}
}

func (a *recorder) Write(data []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.body.Write(data)
}

// warn adds to the warnings of an answer that says yes.
func (a *recorder) warn(warnings []string) {
	if a.code != http.StatusOK || len(warnings) == 0 {
		return
	}
	var answer map[string]json.RawMessage
	if json.Unmarshal(a.body.Bytes(), &answer) != nil {
		return
	}
	var already string
	_ = json.Unmarshal(answer["Warnings"], &already) // absent: none
	all := strings.TrimSpace(already + "\nPSG: " + strings.Join(warnings, "\nPSG: "))
	told, err := json.Marshal(all)
	if err != nil {
		return
	}
	answer["Warnings"] = told
	if changed, err := json.Marshal(answer); err == nil {
		a.body.Reset()
		a.body.Write(changed)
		a.header.Set("Content-Length", strconv.Itoa(len(changed)))
	}
}

func (a *recorder) replay(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.code)
	_, _ = io.Copy(w, &a.body) // the caller may be gone
}
