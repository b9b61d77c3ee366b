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

// Empty, or the reason why not.
template <class Params>
using CudaSupports = std::string(const Params&, const CudaDevice&);
// Bytes of device memory, aligned to 256.
template <class Params>
using CudaWorkspace = size_t(const Params&, const CudaCall&);
// Enqueues on call.stream; waits for nothing. All buffers begin at multiples of 16 bytes: kernels load packs.
template <class Params>
using CudaLaunch = void(const Params&, const Buffers&, const CudaCall&);
// What a tuner may choose from ("128x128x8"), and the index taken for kByPolicy.
template <class Params>
using CudaConfigurations = std::vector<std::string>(const Params&, const CudaDevice&);
template <class Params>
using CudaPolicy = int(const Params&, const CudaDevice&);

template <class Params>
struct CudaKernel {
  std::string key;  // matmul/native/cuda/tiled_shared
  CudaSupports<Params>* supports;
  CudaWorkspace<Params>* workspace_bytes;
  CudaLaunch<Params>* launch;
  CudaConfigurations<Params>* configurations = nullptr;  // null: there is one only
  CudaPolicy<Params>* policy = nullptr;
};

// One list per operator, <operator>_cuda_kernels in <operator>/cuda/rows.cpp, best known first; the simplest
// kernel is the last row and takes every float32 problem. To add one: a row there, and a .cu that defines its
// functions.

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
