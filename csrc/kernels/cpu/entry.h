// What crosses between kernels compiled per instruction set and their dispatch: plain data, no inline code.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/params.h"

namespace profkit {

// Sizes of a kernel's blocks, by the names that a tuner uses; 0 leaves a size to the kernel's policy.
struct CpuBlocks {
  int64_t mc, nc, kc;                 // rows, columns and steps of the reduction of a packed block
  int64_t positions, channels, rows;  // of a slab of images
};

// What block sizes are derived from: the caches, unless sizes were requested.
struct CpuBlocking {
  int64_t l1d_bytes, l2_bytes, l3_bytes;
  CpuBlocks requested;
};

// A size that can be requested: a multiple of `unit`, at most `most`; `chosen` is the kernel's own choice.
struct CpuTunable {
  const char* name;
  int64_t CpuBlocks::* field;
  int64_t unit, most, chosen;
};
struct CpuTunables {
  CpuTunable list[3];
  int count;
};

// Arrays that an operator reads: batch_norm takes five.
constexpr int kMostInputs = 5;

struct CpuCall {
  const void* inputs[kMostInputs];
  void* output;
  void* workspace;
  const void* packed;  // what CpuEntry::pack made of inputs[1]; null: the call packs for itself
  int threads;
  CpuBlocking blocking;
};

template <class Params>
struct CpuEntry {
  size_t (*workspace_bytes)(const Params&, int threads, const CpuBlocking&);
  void (*launch)(const Params&, const CpuCall&);
  CpuTunables (*tunables)(const Params&, int threads, const CpuBlocking&) = nullptr;  // null: none
  // Weights packed ahead of the calls. Null: the kernel has no such form; 0 bytes: not for these parameters.
  size_t (*packed_bytes)(const Params&, int threads, const CpuBlocking&) = nullptr;
  void (*pack)(const Params&, const void* weights, void* packed, int threads, const CpuBlocking&) = nullptr;
};

// As in runtime/threads.h, whose inline code must not be compiled with the flags of an instruction set.
void run_parallel(int threads, void (*body)(void* context, int thread), void* context);

// A workspace whose size does not fit 64 bits: throws std::bad_alloc, as allocating it would.
[[noreturn]] void refuse_workspace();

// A row of a table that is not there: throws KernelError.
[[noreturn]] void refuse_index(int64_t index, int64_t count);

}  // namespace profkit
