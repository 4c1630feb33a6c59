package noisy_nodes_test

import data.noisy_nodes

on(labels, telemetry) := {
	"workload": {"labels": labels},
	"node": {"id": "n1", "name": "node-1", "telemetry": telemetry},
}

test_quiet_node_keeps_its_points if {
	quiet := on({}, {"cpu_steal_percent": {"p95": 5}, "packet_loss_percent": {"mean": 0.5}, "nvme_slowdown": {"mean": 1.5}})
	count(noisy_nodes.score) == 0 with input as quiet
	count(noisy_nodes.deny) == 0 with input as quiet
}

test_unmeasured_node_keeps_its_points if {
	count(noisy_nodes.score) == 0 with input as on({}, {})
	count(noisy_nodes.deny) == 0 with input as on({}, {})
}

test_steal_costs_by_its_excess if {
	scores := noisy_nodes.score with input as on({}, {"cpu_steal_percent": {"p95": 7}})
	scores == {["CPU steal", -8]}
}

test_critical_steal_denies if {
	count(noisy_nodes.deny) == 0 with input as on({}, {"cpu_steal_percent": {"p95": 30}})
	reasons := noisy_nodes.deny with input as on({}, {"cpu_steal_percent": {"p95": 31}})
	reasons == {"node node-1 loses more than 30 % of its CPU to steal"}
}

test_loss_costs if {
	scores := noisy_nodes.score with input as on({}, {"packet_loss_percent": {"mean": 2}})
	scores == {["packet loss", -200]}
}

test_slow_nvme_costs_more_for_io if {
	slow := {"nvme_slowdown": {"mean": 2}}
	some_points := noisy_nodes.score with input as on({}, slow)
	some_points == {["slow NVMe", -10]}
	more_points := noisy_nodes.score with input as on({"io": "high"}, slow)
	more_points == {["slow NVMe", -30]}
}
