package memory_overcommit_test

import data.memory_overcommit

denied(tier, free, projected) := reasons if {
	reasons := memory_overcommit.deny with input as {
		"workload": {"tier": tier, "request": {"memory_mb": 100, "memory_max_mb": 400}},
		"node": {
			"id": "n1", "name": "node-1", "free": {"memory_mb": free}, "capacity": {"memory_mb": 1000},
			"projection": {"memory_mb": {"upper": projected}},
		},
	}
		with data.params as {"tiers": ["bronze"], "headroom_percent": 85}
}

test_what_fits_goes_anywhere if {
	count(denied("gold", 400, 990)) == 0
	count(denied("bronze", 400, 990)) == 0
}

test_gold_does_not_overcommit if {
	denied("gold", 399, 0) == {"node node-1 has 399 MiB free, not the 400 MiB that the workload may use, and tier \"gold\" may not overcommit memory"}
}

test_bronze_does_while_there_is_headroom if {
	count(denied("bronze", 100, 850)) == 0
	denied("bronze", 100, 851) == {"node node-1 is projected to use 851 of 1000 MiB: too much to overcommit its memory"}
}
