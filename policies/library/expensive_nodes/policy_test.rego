package expensive_nodes_test

import data.expensive_nodes

scored(kind, class) := scores if {
	scores := expensive_nodes.score with input as {"workload": {"kind": kind}, "node": {"id": "n1", "class": class}}
		with data.params as {"cost": {"gpu-large": 50, "highmem": 20}, "exempt": ["training"]}
}

test_expensive_class_loses_points if {
	scored("service", "gpu-large") == {["expensive node", -50]}
	scored("service", "highmem") == {["expensive node", -20]}
}

test_other_classes_keep_theirs if {
	count(scored("service", "small")) == 0
	count(scored("service", "")) == 0
}

test_exempt_kinds_do_not_care if {
	count(scored("training", "gpu-large")) == 0
}
