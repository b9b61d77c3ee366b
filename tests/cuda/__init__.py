"""CUDA kernels without a GPU: emulated, launched on a double of the CUDA runtime, compiled by NVRTC."""
