"""NVTX, ITT and allocations."""
