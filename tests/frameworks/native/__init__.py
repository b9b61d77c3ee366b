"""profkit's own kernels behind their adapter: policy, tuned rows, threads."""
