module weir/testbed/kwok

go 1.26

require sigs.k8s.io/kwok v0.8.0
