package shim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/nomad/api"
)

// abroad reports whether a request is for another region than that of the Nomad
// behind the proxy, or for several.
func (p *Proxy) abroad(r *http.Request, seen *outline) bool {
	if seen.Job != nil && seen.Job.Multiregion != nil {
		return true
	}
	region := seen.region(r.URL.Query())
	if region == "" || region == api.GlobalRegion || region == p.config.Region {
		return false
	}
	if p.config.Region != "" {
		return true
	}
	regions, err := p.regions(r)
	if err != nil || len(regions) != 1 {
		p.config.Log.Warn("a request passes that names a region: which is Nomad's own is not known, say so with -region",
			"region", region, "regions", regions, "error", err)
		return true
	}
	return region != regions[0]
}

// regions are those that Nomad knows: where there is one, it is its own.
func (p *Proxy) regions(r *http.Request) (regions []string, err error) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, strings.TrimSuffix(p.config.Nomad.String(), "/")+"/v1/regions", nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: p.config.Transport}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask nomad: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask nomad for its regions: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&regions); err != nil {
		return nil, fmt.Errorf("ask nomad for its regions: %w", err)
	}
	return regions, nil
}
