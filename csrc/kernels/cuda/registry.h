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
  int configuration = kByPolicy;  // index into the row's configurations; rows get what `resolved` makes of it
};

// What the .cu of a kernel defines, as <operator>_<technique>_cuda.
template <class Params>
struct CudaEntry {
  // Empty, or the reason why not.
  std::string (*supports)(const Params&, const CudaDevice&);
  // Enqueues on call.stream; waits for nothing. All buffers begin at multiples of 16 bytes: kernels load
  // packs.
  void (*launch)(const Params&, const Buffers&, const CudaCall&);
  // Bytes of device memory, aligned to 256; null: none.
  size_t (*workspace)(const Params&, const CudaCall&) = nullptr;
  // What a tuner may choose from ("128x128x8"), and the index taken for kByPolicy. Null: there is one only.
  std::vector<std::string> (*configurations)(const Params&, const CudaDevice&) = nullptr;
  int (*policy)(const Params&, const CudaDevice&) = nullptr;
};

// One list per operator, <operator>_cuda_kernels in <operator>/cuda/rows.cpp, best known first; the simplest
// kernel is the last row and takes every float32 problem. To add one: a row there, and a .cu with its entry.
template <class Params>
struct CudaKernel : CudaEntry<Params> {
  std::string key;  // matmul/native/cuda/tiled_shared

  CudaKernel(const char* name, const CudaEntry<Params>& entry) : CudaEntry<Params>(entry), key(name) {}

  size_t workspace_bytes(const Params& params, const CudaCall& call) const {
    return this->workspace == nullptr ? 0 : this->workspace(params, call);
  }
  std::vector<std::string> configuration_names(const Params& params, const CudaDevice& device) const {
    return this->configurations == nullptr ? std::vector<std::string>{}
                                           : this->configurations(params, device);
  }
  // The call with the configuration that runs; KernelError for one that is not there.
  CudaCall resolved(const Params& params, CudaCall call) const {
    if (call.configuration == kByPolicy) {
      if (this->policy != nullptr) call.configuration = this->policy(params, call.device);
      return call;
    }
    const size_t count = configuration_names(params, call.device).size();
    if (call.configuration >= 0 && static_cast<size_t>(call.configuration) < count) return call;
    throw KernelError(key + " has " + std::to_string(count) + " configurations, there is no number " +
                      std::to_string(call.configuration));
  }
};

// The common limit: float32, and every count that index arithmetic in 32 bits needs.
template <class Params>
std::string float32_only(const Params& params) {
  return params.dtype == PROFKIT_FLOAT32 ? "" : "it is written for float32 only";
}

}  // namespace profkit
