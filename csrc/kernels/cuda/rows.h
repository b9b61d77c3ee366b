// What an operator's cuda/rows.cpp is made of.
#pragma once

#include "kernels/cuda/registry.h"

// Defines <op>_cuda_kernels: {key, entry} of each kernel, best known first, the simplest last.
#define PROFKIT_CUDA_ROWS(op, ...)                                                          \
  const std::vector<CudaKernel<profkit_##op##_params>>& op##_cuda_kernels() {               \
    static const auto rows = unique_rows<CudaKernel<profkit_##op##_params>>({__VA_ARGS__}); \
    return rows;                                                                            \
  }
