package failure_domains_test

import data.failure_domains

job := {"service": "default/checkout"}

on(domain, residents) := {
	"workload": job,
	"node": {"id": "n1", "name": "node-1", "domain": domain, "workloads": residents},
}

cluster(planned, domains) := {"services": {"default/checkout": {
	"planned": planned,
	"placed": sum([n | some n in domains]),
	"domains": domains,
}}}

params := {
	"min_domains": {"default/checkout": 3},
	"never_beside": {"default/checkout": ["batch"]},
}

denied(pair, totals) := reasons if {
	reasons := failure_domains.deny with input as pair
		with data.cluster as totals
		with data.params as params
}

test_first_goes_anywhere if {
	count(denied(on("a", []), cluster(3, {}))) == 0
}

test_last_ones_go_to_new_domains if {
	denied(on("a", []), cluster(3, {"a": 1})) == {"domain a holds default/checkout already: 2 more domains are needed, with 2 instances to place"}
	count(denied(on("b", []), cluster(3, {"a": 1}))) == 0
}

test_spare_instances_may_double_up if {
	count(denied(on("a", []), cluster(6, {"a": 1}))) == 0
}

test_enough_domains_frees_the_rest if {
	count(denied(on("a", []), cluster(4, {"a": 1, "b": 1, "c": 1}))) == 0
}

test_other_services_are_free if {
	count(denied(object.union(on("a", []), {"workload": {"service": "default/other"}}), cluster(3, {"a": 1}))) == 0
}

test_never_beside_tenant if {
	denied(on("a", [{"tenant": "batch", "service": "batch/etl"}]), cluster(3, {})) == {"node node-1 runs batch/etl of tenant batch, which default/checkout must not share a node with"}
	count(denied(on("a", [{"tenant": "search", "service": "search/index"}]), cluster(3, {}))) == 0
}
