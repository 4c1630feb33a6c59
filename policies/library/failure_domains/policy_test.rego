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

test_first_goes_anywhere if {
	count(failure_domains.deny) == 0 with input as on("a", [])
		with data.cluster as cluster(3, {})
}

test_last_ones_go_to_new_domains if {
	reasons := failure_domains.deny with input as on("a", [])
		with data.cluster as cluster(3, {"a": 1})
	reasons == {"domain a holds default/checkout already: 2 more domains are needed, with 2 instances to place"}
	count(failure_domains.deny) == 0 with input as on("b", [])
		with data.cluster as cluster(3, {"a": 1})
}

test_spare_instances_may_double_up if {
	count(failure_domains.deny) == 0 with input as on("a", [])
		with data.cluster as cluster(6, {"a": 1})
}

test_enough_domains_frees_the_rest if {
	count(failure_domains.deny) == 0 with input as on("a", [])
		with data.cluster as cluster(4, {"a": 1, "b": 1, "c": 1})
}

test_other_services_are_free if {
	count(failure_domains.deny) == 0 with input as object.union(on("a", []), {"workload": {"service": "default/other"}})
		with data.cluster as cluster(3, {"a": 1})
}

test_never_beside_tenant if {
	reasons := failure_domains.deny with input as on("a", [{"tenant": "batch", "service": "batch/etl"}])
		with data.cluster as cluster(3, {})
	reasons == {"node node-1 runs batch/etl of tenant batch, which default/checkout must not share a node with"}
	count(failure_domains.deny) == 0 with input as on("a", [{"tenant": "search", "service": "search/index"}])
		with data.cluster as cluster(3, {})
}
