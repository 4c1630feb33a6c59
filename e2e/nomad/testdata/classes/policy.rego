# METADATA
# title: Classes
# description: >-
#   Keeps a workload labelled class=X on nodes of class X, and admits none
#   labelled forbidden.
package classes

deny contains reason if {
	wanted := input.workload.labels.class
	input.node.class != wanted
	reason := sprintf("node %s is not of class %s", [input.node.name, wanted])
}

reject contains reason if {
	why := input.workload.labels.forbidden
	reason := sprintf("forbidden: %s", [why])
}
