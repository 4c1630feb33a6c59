package anti_colocation_test

import data.anti_colocation

denied(labels, resident) := reasons if {
	reasons := anti_colocation.deny with input as {
		"workload": {"service": "default/new", "labels": labels},
		"node": {"id": "n1", "name": "node-1", "workloads": [{"service": "default/old", "labels": resident}]},
	}
		with data.params as {"label": "apart_from", "group": "group"}
}

test_keeps_off_the_group if {
	denied({"apart_from": "db"}, {"group": "db"}) == {"node node-1 runs default/old, of group db, which default/new keeps apart from"}
}

test_the_group_keeps_off_too if {
	denied({"group": "db"}, {"apart_from": "db"}) == {"node node-1 runs default/old, which keeps apart from group db"}
}

test_others_are_free if {
	count(denied({"apart_from": "db"}, {"group": "web"})) == 0
	count(denied({"group": "db"}, {})) == 0
	count(denied({}, {"group": "db", "apart_from": "db"})) == 0
}
