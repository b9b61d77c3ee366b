// What crosses between kernels compiled per instruction set and their dispatch: plain data, no inline code.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/params.h"

namespace profkit {

struct CpuCaches {
  int64_t l1d_bytes, l2_bytes, l3_bytes;
};

struct CpuCall {
  const void* inputs[3];
  void* output;
  void* workspace;
  int threads;
  CpuCaches caches;
};

template <class Params>
struct CpuEntry {
  size_t (*workspace_bytes)(const Params&, int threads, const CpuCaches&);
  void (*launch)(const Params&, const CpuCall&);
};

// As in runtime/threads.h, whose inline code must not be compiled with the flags of an instruction set.
void run_parallel(int threads, void (*body)(void* context, int thread), void* context);

// A workspace whose size does not fit 64 bits: throws std::bad_alloc, as allocating it would.
[[noreturn]] void refuse_workspace();

}  // namespace profkit
