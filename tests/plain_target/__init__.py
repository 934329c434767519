"""plain_target: a target that the package does not know, whose kernels are loops over numbers."""
