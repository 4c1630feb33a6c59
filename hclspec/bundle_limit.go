package hclspec

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/psgrid/psg"
)

// limitBlock bounds instances by their labels:
//
//	limit "one_db_per_host" {
//	  match    = { group = "db" }
//	  per_node = 1
//	}
type limitBlock struct {
	Name      string            `hcl:"name,label"`
	NameRange hcl.Range         `hcl:"name,label_range"`
	Range     hcl.Range         `hcl:",def_range"`
	Match     map[string]string `hcl:"match"`
	PerNode   int               `hcl:"per_node,optional"`
	Total     int               `hcl:"total,optional"`
	Soft      bool              `hcl:"soft,optional"`
}

func (d *bundleDecoder) limit(block limitBlock) psg.Limit {
	d.once("limit", block.Name, block.Range)
	limit := psg.Limit{Name: block.Name, Match: block.Match, PerNode: block.PerNode, Total: block.Total, Soft: block.Soft}
	if err := limit.Validate(); err != nil {
		d.errs.add(block.Range, "limit %q: %v", block.Name, err)
	}
	return limit
}
