// The CUDA kernels: one row each, as kernels/registry.h has for the CPU. Rows know nothing of selection;
// which configuration runs is the policy's (cuda_policy) or the tuner's choice, and arrives with the call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/params.h"
#include "kernels/registry.h"

namespace profkit {

// What a launch must know of the device.
struct CudaDevice {
  int capability = 80;  // 10 * major + minor
  int multiprocessors = 108;
  size_t shared_bytes_per_block = 48 * 1024;  // with opt-in
  size_t l2_bytes = 0;
};

constexpr int kByPolicy = -1;

struct CudaCall {
  CudaDevice device;
  void* stream = nullptr;         // cudaStream_t
  int configuration = kByPolicy;  // index into the row's configurations
};

template <class Params>
struct CudaKernel {
  std::string key;                                            // matmul/native/cuda/tiled_shared
  std::string (*supports)(const Params&, const CudaDevice&);  // empty, or the reason why not
  size_t (*workspace_bytes)(const Params&, const CudaCall&);  // device memory, aligned to 256
  // Enqueues on call.stream; waits for nothing. All buffers begin at multiples of 16 bytes: kernels load
  // packs.
  void (*launch)(const Params&, const Buffers&, const CudaCall&);
  // What a tuner may choose from ("128x128x8"); empty: there is one way only.
  std::vector<std::string> (*configurations)(const Params&, const CudaDevice&) = nullptr;
  int (*policy)(const Params&, const CudaDevice&) = nullptr;  // the index taken for kByPolicy
};

// One list per operator, <operator>_cuda_kernels in <operator>/cuda/rows.cpp, best known first; the simplest
// kernel is the last row and takes every float32 problem. To add one: a row there, a declaration in
// <operator>/cuda/kernels.h, its .cu.

// The rows as they came; a key that appears twice would hide a kernel.
template <class Params>
std::vector<CudaKernel<Params>> unique_cuda_rows(std::vector<CudaKernel<Params>> rows) {
  std::set<std::string> keys;
  for (const CudaKernel<Params>& row : rows) {
    PROFKIT_CHECK(keys.insert(row.key).second, "two CUDA kernels are named " + row.key);
  }
  return rows;
}

template <class Params>
size_t no_cuda_workspace(const Params&, const CudaCall&) {
  return 0;
}

// The common limit: float32, and every count that index arithmetic in 32 bits needs.
template <class Params>
std::string float32_only(const Params& params, const CudaDevice&) {
  return params.dtype == PROFKIT_FLOAT32 ? "" : "it is written for float32 only";
}

}  // namespace profkit
