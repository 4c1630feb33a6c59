package noisy_nodes_test

import data.noisy_nodes

on(labels, telemetry) := {
	"workload": {"labels": labels},
	"node": {"id": "n1", "name": "node-1", "telemetry": telemetry},
}

params := {
	"steal_percent": 5,
	"steal_critical": 30,
	"loss_percent": 0.5,
	"nvme_slowdown": 1.5,
	"points_per_steal": 4,
	"points_per_loss": 100,
	"points_for_nvme": 10,
	"points_for_nvme_io": 30,
	"points_for_noisy": 50,
}

denied(pair) := reasons if {
	reasons := noisy_nodes.deny with input as pair
		with data.params as params
}

scored(pair) := scores if {
	scores := noisy_nodes.score with input as pair
		with data.params as params
}

test_quiet_node_keeps_its_points if {
	quiet := on({}, {"cpu_steal_percent": {"p95": 5}, "packet_loss_percent": {"mean": 0.5}, "nvme_slowdown": {"mean": 1.5}})
	count(scored(quiet)) == 0
	count(denied(quiet)) == 0
}

test_unmeasured_node_keeps_its_points if {
	count(scored(on({}, {}))) == 0
	count(denied(on({}, {}))) == 0
}

test_steal_costs_by_its_excess if {
	scored(on({}, {"cpu_steal_percent": {"p95": 7}})) == {["CPU steal", -8]}
}

test_critical_steal_denies if {
	count(denied(on({}, {"cpu_steal_percent": {"p95": 30}}))) == 0
	denied(on({}, {"cpu_steal_percent": {"p95": 31}})) == {"node node-1 loses more than 30 % of its CPU to steal"}
}

test_loss_costs if {
	scored(on({}, {"packet_loss_percent": {"mean": 2}})) == {["packet loss", -200]}
}

test_slow_nvme_costs_more_for_io if {
	slow := {"nvme_slowdown": {"mean": 2}}
	scored(on({}, slow)) == {["slow NVMe", -10]}
	scored(on({"io": "high"}, slow)) == {["slow NVMe", -30]}
}

test_noisy_neighbour_costs if {
	scored(on({}, {"noisy": {"last": 1}})) == {["noisy neighbour", -50]}
	count(scored(on({}, {"noisy": {"last": 0}}))) == 0
}
