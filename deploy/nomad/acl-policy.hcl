# What the controller's token may do. One namespace block for each that PSG places;
# the first counts what runs elsewhere.

namespace "*" {
  capabilities = ["list-jobs", "read-job"]
}

namespace "default" {
  capabilities = ["list-jobs", "read-job", "submit-job", "alloc-lifecycle"]
}

node {
  policy = "read"
}

agent {
  policy = "read"
}
