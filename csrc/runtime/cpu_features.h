// What this processor offers and what was compiled: the choice of instruction set at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profkit {

enum class Simd { generic, avx2, avx512, neon };

struct CacheSizes {
  int64_t l1d_bytes, l2_bytes, l3_bytes;  // 0 when the system does not report it
};

const char* simd_name(Simd level);

// Levels that this processor runs, those compiled into this module, and those that are both; lowest first.
const std::vector<Simd>& processor_simd();
const std::vector<Simd>& compiled_simd();
const std::vector<Simd>& supported_simd();

// The level that kernels use: the highest supported one, or the value of PROFKIT_SIMD. Throws KernelError,
// with the choices, when that is unknown, not compiled or not supported.
Simd active_simd();

// The reason a kernel gives when only the portable code is in use, which does not have it.
std::string vector_code_is_missing();

const CacheSizes& cache_sizes();

// Total size of the last-level caches of all usable processors (a processor of several dies has several), or
// a safe guess when the system does not report them.
int64_t last_level_caches_bytes();

}  // namespace profkit
