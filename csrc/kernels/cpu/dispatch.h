// Run-time choice among the compiled instruction sets: one entry per set enters, the registry's functions
// leave.
#pragma once

#include <utility>
#include <vector>

#include "kernels/cpu/entry.h"
#include "kernels/registry.h"
#include "runtime/cpu_features.h"
#include "runtime/isa_namespaces.h"

namespace profkit {

// The same kernel once per instruction set; null where that set is not compiled, or has no such kernel.
template <class Params>
struct CpuVariants {
  const CpuEntry<Params>*generic, *avx2, *avx512, *neon;

  const CpuEntry<Params>* of_active_simd() const {
    switch (active_simd()) {
      case Simd::avx2:
        return avx2;
      case Simd::avx512:
        return avx512;
      case Simd::neon:
        return neon;
      default:
        return generic;
    }
  }
  const CpuEntry<Params>* of_any_simd() const {
    return generic ? generic : avx2 ? avx2 : avx512 ? avx512 : neon;
  }
  // Empty, or why the kernel cannot run here.
  std::string reason_against() const { return of_active_simd() ? std::string() : vector_code_is_missing(); }

  const CpuEntry<Params>& active() const {
    const CpuEntry<Params>* entry = of_active_simd();
    if (entry == nullptr) throw UnsupportedError(vector_code_is_missing());
    return *entry;
  }
};

// Cache sizes for blocking; where the system does not report them, those of a small current core.
inline CpuBlocking blocking_with(const CpuBlocks& requested) {
  const CacheSizes& found = cache_sizes();
  const auto known = [](int64_t bytes, int64_t guess) { return bytes > 0 ? bytes : guess; };
  const int64_t l2 = known(found.l2_bytes, int64_t{256} << 10);
  return {known(found.l1d_bytes, int64_t{32} << 10), l2, known(found.l3_bytes, 4 * l2), requested};
}

inline int at_least_one(int threads) { return threads < 1 ? 1 : threads; }

// The registry's row of a kernel that exists per instruction set: every call goes to the active one.
template <class Params, const CpuVariants<Params>& variants,
          std::string (*supports)(const Params&) = supports_wide_floats<Params>>
Kernel<Params> cpu_row(const char* key) {
  Kernel<Params> row{
      key,
      [](const Params& params) {
        const std::string reason = variants.reason_against();
        return reason.empty() ? supports(params) : reason;
      },
      [](const Params& params, int threads, const CpuBlocks& requested) {
        return variants.active().workspace_bytes(params, at_least_one(threads), blocking_with(requested));
      },
      [](const Params& params, const Buffers& buffers, int threads, const CpuBlocks& requested) {
        CpuCall call{{},
                     buffers.output,
                     buffers.workspace,
                     buffers.packed,
                     at_least_one(threads),
                     blocking_with(requested)};
        for (int i = 0; i < kMostInputs; ++i) call.inputs[i] = buffers.inputs[i];
        variants.active().launch(params, call);
      }};
  // The same functions exist for every instruction set that has the kernel.
  const CpuEntry<Params>* entry = variants.of_any_simd();
  if (entry != nullptr && entry->tunables) {
    row.tunables = [](const Params& params, int threads) {
      return variants.active().tunables(params, threads, blocking_with({}));
    };
  }
  if (entry != nullptr && entry->pack) {
    row.packed_bytes = [](const Params& params, int threads, const CpuBlocks& requested) {
      return variants.active().packed_bytes(params, threads, blocking_with(requested));
    };
    row.pack = [](const Params& params, const void* weights, void* packed, int threads,
                  const CpuBlocks& requested) {
      variants.active().pack(params, weights, packed, threads, blocking_with(requested));
    };
  }
  return row;
}

template <class Params, ReferenceLaunch<Params>& reference>
std::vector<Kernel<Params>> with_reference(const char* key, std::vector<Kernel<Params>> rows) {
  rows.push_back(reference_row<Params, reference>(key));
  return unique_rows(std::move(rows));
}

// Defines <op>_kernels: the given rows, best known first, and behind them that of <op>_reference.
#define PROFKIT_CPU_ROWS(op, ...)                                                                          \
  ReferenceLaunch<profkit_##op##_params> op##_reference;                                                   \
  const std::vector<Kernel<profkit_##op##_params>>& op##_kernels() {                                       \
    static const auto rows =                                                                               \
        with_reference<profkit_##op##_params, op##_reference>(#op "/native/cpu/reference", {__VA_ARGS__}); \
    return rows;                                                                                           \
  }

// Address of one instruction set's entry, or null when the build has no such set.
#ifdef PROFKIT_HAS_AVX2
#define PROFKIT_AVX2_ENTRY(name) &avx2::name
#else
#define PROFKIT_AVX2_ENTRY(name) nullptr
#endif
#ifdef PROFKIT_HAS_AVX512
#define PROFKIT_AVX512_ENTRY(name) &avx512::name
#else
#define PROFKIT_AVX512_ENTRY(name) nullptr
#endif
#ifdef PROFKIT_HAS_NEON
#define PROFKIT_NEON_ENTRY(name) &neon::name
#else
#define PROFKIT_NEON_ENTRY(name) nullptr
#endif

// Declares a kernel's entries, at namespace profkit: PROFKIT_CPU_ENTRY(profkit_lrn_params, lrn_windowed).
// isa_units.txt lists the sets that have it: all, or (PROFKIT_VECTOR_ENTRY) all but the portable one.
#define PROFKIT_CPU_ENTRY(Params, name) PROFKIT_ENTRY_OF(Params, name, &generic::name)
#define PROFKIT_VECTOR_ENTRY(Params, name) PROFKIT_ENTRY_OF(Params, name, nullptr)
#define PROFKIT_ENTRY_OF(Params, name, generic_entry)                                                        \
  PROFKIT_IN_EVERY_ISA(extern const CpuEntry<Params> name;)                                                  \
  namespace {                                                                                                \
  constexpr CpuVariants<Params> name = {generic_entry, PROFKIT_AVX2_ENTRY(name), PROFKIT_AVX512_ENTRY(name), \
                                        PROFKIT_NEON_ENTRY(name)};                                           \
  }

}  // namespace profkit
