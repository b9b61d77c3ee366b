// What this processor offers and what was compiled: the choice of instruction set at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace profkit {

enum class Simd { generic, avx2, avx512, neon };

struct CacheSizes {
  int64_t l1d_bytes, l2_bytes, l3_bytes;  // 0 when the system does not tell
};

const char* simd_name(Simd level);

// Levels compiled into this module, and those of them that this processor runs; lowest first.
const std::vector<Simd>& compiled_simd();
const std::vector<Simd>& supported_simd();

// The level that kernels use: the highest supported one, or what PROFKIT_SIMD asks for. Throws KernelError,
// with the choices, when that is unknown, not compiled or not supported.
Simd active_simd();

const CacheSizes& cache_sizes();

// What the last-level caches of all usable processors hold together (a processor of several dies has
// several), or a guess that is safe to exceed when the system does not tell.
int64_t last_level_caches_bytes();

}  // namespace profkit
