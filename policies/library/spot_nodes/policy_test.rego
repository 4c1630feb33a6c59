package spot_nodes_test

import data.spot_nodes

params := {"meta": "lifecycle", "value": "spot", "points": 10}

on(preemptible, meta) := {"workload": {"preemptible": preemptible}, "node": {"id": "n1", "name": "node-1", "meta": meta}}

denied(preemptible, meta) := reasons if {
	reasons := spot_nodes.deny with input as on(preemptible, meta)
		with data.params as params
}

test_only_preemptible_goes_to_spot if {
	denied(false, {"lifecycle": "spot"}) == {"node node-1 may be taken away at any time (lifecycle=spot): only preemptible workloads may use it"}
	count(denied(true, {"lifecycle": "spot"})) == 0
}

test_other_nodes_take_all if {
	count(denied(false, {"lifecycle": "on-demand"})) == 0
	count(denied(false, {})) == 0
}

test_preemptible_is_drawn if {
	scores := spot_nodes.score with input as on(true, {"lifecycle": "spot"})
		with data.params as params
	scores == {["spot node", 10]}
	none := spot_nodes.score with input as on(false, {"lifecycle": "spot"})
		with data.params as params
	count(none) == 0
}
