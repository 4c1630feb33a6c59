package compliance_test

import data.compliance

on(labels, meta, region) := {
	"now": 1000,
	"workload": {"labels": labels},
	"node": {"id": "n1", "name": "node-1", "meta": meta, "region": region},
}

params := {"certificates": "compliance", "residency": {"eu": ["eu-central", "eu-west"]}}

denied(pair, windows) := reasons if {
	reasons := compliance.deny with input as pair
		with data.cmdb as windows
		with data.params as params
}

test_certified_node_takes_it if {
	count(denied(on({"compliance": "pci"}, {"compliance": "sox, pci"}, ""), {})) == 0
}

test_other_nodes_do_not if {
	denied(on({"compliance": "pci"}, {"compliance": "pci-lite"}, ""), {}) == {"node node-1 is not certified for pci"}
	count(denied(on({"compliance": "pci"}, {}, ""), {})) == 1
}

test_unlabelled_goes_anywhere if {
	count(denied(on({}, {}, "us-east"), {})) == 0
}

test_residency if {
	count(denied(on({"residency": "eu"}, {}, "eu-west"), {})) == 0
	denied(on({"residency": "eu"}, {}, "us-east"), {}) == {"region \"us-east\" is outside of eu, where the data must stay"}
}

test_unknown_residency_is_rejected if {
	reasons := compliance.reject with input as on({"residency": "mars"}, {}, "")
		with data.params as params
	reasons == {"label residency=mars is none of: eu"}
	count(compliance.reject) == 0 with input as on({"residency": "eu"}, {}, "")
		with data.params as params
}

test_maintenance_window_is_half_open if {
	count(denied(on({}, {}, ""), {"node-1": [{"start": 1000, "end": 1001}]})) == 1
	count(denied(on({}, {}, ""), {"node-1": [{"start": 900, "end": 1000}, {"start": 1001, "end": 1002}]})) == 0
	count(denied(on({}, {}, ""), {"node-2": [{"start": 0, "end": 2000}]})) == 0
}
