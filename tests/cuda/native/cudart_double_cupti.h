// What the double of the CUDA runtime tells the double of CUPTI (tests/tracer/native/cupti_double.cpp), as a
// driver tells the real one: calls, kernels, copies and memory. Nothing where PROFKIT_CUPTI_LIBRARY names no
// double. PROFKIT_CUDA_DOUBLE_UNTOLD, as kernel@5 or copy@2, keeps one of them back.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cudart_double {

// Callback ids of CUPTI's runtime domain.
enum class RuntimeCall : uint32_t {
  malloc = 20,
  free = 22,
  memcpy = 31,
  memset = 49,
  memset_async = 51,
  launch = 211
};
enum class CopyWay : uint32_t { to_device = 1, from_device = 2 };

// The driver starts, which loads the tool that CUDA_INJECTION64_PATH names. Every call after the first does
// nothing.
void start_driver();

uint64_t cupti_now();
// A call of this thread; gives its correlation.
uint32_t tell_call(RuntimeCall call);
void tell_kernel(const char* name, uint32_t correlation, uint64_t start);
void tell_copy(CopyWay way, size_t bytes, uint32_t correlation, uint64_t start);
void tell_set(size_t bytes, uint32_t correlation, uint64_t start);
void tell_memory(bool is_release, const void* address, size_t bytes, uint32_t correlation);
void tell_synchronisation();

}  // namespace cudart_double
