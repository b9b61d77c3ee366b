// The native registry: one row per kernel. Kernels know nothing of selection; choosing is done in Python.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "kernels/cpu/entry.h"
#include "kernels/params.h"
#include "runtime/check.h"

namespace profkit {

// What a launch works on. Inputs are in the order of <operator>/arrays.cpp; the workspace holds at least
// workspace_bytes(params, threads) bytes, aligned to 64. `packed` is what Kernel::pack made of inputs[1] for
// the same parameters, threads and sizes of blocks, or null.
struct Buffers {
  const void* inputs[kMostInputs] = {};
  void* output = nullptr;
  void* workspace = nullptr;
  const void* packed = nullptr;

  template <class T>
  const T* input_as(int index) const {
    return static_cast<const T*>(inputs[index]);
  }
  template <class T>
  T* output_as() const {
    return static_cast<T*>(output);
  }
  template <class T>
  T* workspace_as() const {
    return static_cast<T*>(workspace);
  }
};

// "a, b, c"
template <class Names>
std::string joined(const Names& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

// CpuBlocks{} leaves the sizes of blocks to the kernel's policy.
template <class Params>
struct Kernel {
  std::string key;                         // conv2d/native/cpu/direct
  std::string (*supports)(const Params&);  // empty, or the reason why not
  size_t (*workspace_bytes)(const Params&, int threads, const CpuBlocks&);
  // Allocates nothing; done when it returns.
  void (*launch)(const Params&, const Buffers&, int threads, const CpuBlocks&);
  CpuTunables (*tunables)(const Params&, int threads) = nullptr;  // null: there is nothing to choose
  // Weights (inputs[1]) brought into the kernel's own order ahead of its calls, as inference does. Null: the
  // kernel has no such form; 0 bytes: not for these parameters.
  size_t (*packed_bytes)(const Params&, int threads, const CpuBlocks&) = nullptr;
  void (*pack)(const Params&, const void* weights, void* packed, int threads, const CpuBlocks&) = nullptr;
};

// Returns the rows. A key that appears twice would hide a kernel: throws, so that the module does not load.
template <class Row>
std::vector<Row> unique_rows(std::vector<Row> rows) {
  std::set<std::string> keys;
  for (const Row& row : rows) {
    PROFKIT_CHECK(keys.insert(row.key).second, "two native kernels are named " + row.key);
  }
  return rows;
}

template <class Row>
std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const Row& row : rows) keys.push_back(row.key);
  return keys;
}

// `kind` names what is looked for in the error: "kernel".
template <class Row>
const Row& find_row(const std::vector<Row>& rows, const std::string& key, const std::string& kind) {
  for (const Row& row : rows) {
    if (row.key == key) return row;
  }
  throw KernelError("unknown " + kind + " " + key + "; known: " + joined(keys_of(rows)));
}

// What CPU kernels are written for; 16-bit types are for devices that multiply them.
template <class Params>
std::string supports_wide_floats(const Params& params) {
  if (params.dtype == PROFKIT_FLOAT32 || params.dtype == PROFKIT_FLOAT64) return {};
  return "profkit's CPU kernels are written for float32 and float64 only";
}

template <class Params>
using ReferenceLaunch = void(const Params&, const Buffers&, int threads);

// The row of a kernel that needs no memory and has no blocks.
template <class Params, ReferenceLaunch<Params>& run>
Kernel<Params> reference_row(const char* key) {
  return {key, supports_wide_floats<Params>, [](const Params&, int, const CpuBlocks&) -> size_t { return 0; },
          [](const Params& params, const Buffers& buffers, int threads, const CpuBlocks&) {
            run(params, buffers, threads);
          }};
}

// Defines <op>_reference: the file's launch<T> with the type of the elements.
#define PROFKIT_REFERENCE(op)                                                                     \
  void op##_reference(const profkit_##op##_params& params, const Buffers& buffers, int threads) { \
    params.dtype == PROFKIT_FLOAT64 ? launch<double>(params, buffers, threads)                    \
                                    : launch<float>(params, buffers, threads);                    \
  }

}  // namespace profkit
