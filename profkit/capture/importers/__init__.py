"""Traces of other profilers: torch.profiler and Nsight Systems in, a Capture out."""
