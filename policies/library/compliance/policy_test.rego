package compliance_test

import data.compliance

on(labels, meta, region) := {
	"now": 1000,
	"workload": {"labels": labels},
	"node": {"id": "n1", "name": "node-1", "meta": meta, "region": region},
}

test_certified_node_takes_it if {
	count(compliance.deny) == 0 with input as on({"compliance": "pci"}, {"compliance": "sox, pci"}, "")
		with data.cmdb as {}
}

test_other_nodes_do_not if {
	reasons := compliance.deny with input as on({"compliance": "pci"}, {"compliance": "pci-lite"}, "")
		with data.cmdb as {}
	reasons == {"node node-1 is not certified for pci"}
	count(compliance.deny) == 1 with input as on({"compliance": "pci"}, {}, "")
		with data.cmdb as {}
}

test_unlabelled_goes_anywhere if {
	count(compliance.deny) == 0 with input as on({}, {}, "us-east")
		with data.cmdb as {}
}

test_residency if {
	count(compliance.deny) == 0 with input as on({"residency": "eu"}, {}, "eu-west")
		with data.cmdb as {}
	reasons := compliance.deny with input as on({"residency": "eu"}, {}, "us-east")
		with data.cmdb as {}
	reasons == {"region \"us-east\" is outside of eu, where the data must stay"}
}

test_unknown_residency_is_rejected if {
	reasons := compliance.reject with input as on({"residency": "mars"}, {}, "")
	reasons == {"label residency=mars is none of: eu"}
	count(compliance.reject) == 0 with input as on({"residency": "eu"}, {}, "")
}

test_maintenance_window_is_half_open if {
	count(compliance.deny) == 1 with input as on({}, {}, "")
		with data.cmdb as {"node-1": [{"start": 1000, "end": 1001}]}
	count(compliance.deny) == 0 with input as on({}, {}, "")
		with data.cmdb as {"node-1": [{"start": 900, "end": 1000}, {"start": 1001, "end": 1002}]}
	count(compliance.deny) == 0 with input as on({}, {}, "")
		with data.cmdb as {"node-2": [{"start": 0, "end": 2000}]}
}
