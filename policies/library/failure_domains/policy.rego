# METADATA
# title: Failure domains
# description: >-
#   Has each service of params.min_domains run in so many failure domains, and
#   keeps each service of params.never_beside off nodes that run any of the
#   tenants it names.
package failure_domains

service := data.cluster.services[input.workload.service]

used := {name | some name, n in service.domains; n > 0}

missing := data.params.min_domains[input.workload.service] - count(used)

# What is left to place must be enough for the domains still missing, or a
# domain in use may take no more.
deny contains reason if {
	missing > 0
	input.node.domain in used
	service.planned - service.placed <= missing
	reason := sprintf(
		"domain %s holds %s already: %d more domains are needed, with %d instances to place",
		[input.node.domain, input.workload.service, missing, service.planned - service.placed],
	)
}

deny contains reason if {
	some tenant in data.params.never_beside[input.workload.service]
	some resident in input.node.workloads
	resident.tenant == tenant
	reason := sprintf(
		"node %s runs %s of tenant %s, which %s must not share a node with",
		[input.node.name, resident.service, tenant, input.workload.service],
	)
}
