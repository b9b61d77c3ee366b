// Detection of instruction sets and caches; nothing enters but the machine and PROFKIT_SIMD.
#include "runtime/cpu_features.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>

#ifdef __APPLE__
#include <sys/sysctl.h>
#endif
#ifdef __linux__
#include <sched.h>
#endif

#include "runtime/check.h"
#include "runtime/processor_simd.h"

namespace profkit {
namespace {

std::string names(const std::vector<Simd>& levels) {
  std::string text;
  for (Simd level : levels) text += (text.empty() ? "" : ", ") + std::string(simd_name(level));
  return text;
}

std::vector<Simd> runnable(const std::vector<Simd>& levels) {
  std::vector<Simd> found;
  std::copy_if(levels.begin(), levels.end(), std::back_inserter(found), processor_runs);
  return found;
}

Simd choose_simd() {
  const char* asked = std::getenv("PROFKIT_SIMD");
  if (asked == nullptr || *asked == '\0') return supported_simd().back();
  for (Simd level : supported_simd()) {
    if (std::string(asked) == simd_name(level)) return level;
  }
  throw KernelError("PROFKIT_SIMD=" + std::string(asked) + " cannot be used: this processor runs " +
                    names(supported_simd()) + " of the compiled " + names(compiled_simd()));
}

#ifdef __APPLE__
int64_t system_number(const char* name) {
  int64_t value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

CacheSizes read_cache_sizes() {
  return {system_number("hw.l1dcachesize"), system_number("hw.l2cachesize"), system_number("hw.l3cachesize")};
}
#else
int64_t parse_size(const std::string& text) {  // "32768K"
  if (text.empty()) return 0;
  const int64_t number = std::atoll(text.c_str());
  const char unit = text.back();
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : unit == 'G' ? number << 30 : number;
}

struct Cache {
  int64_t level, bytes;
  std::string sharers;  // "0-7,64-71"; empty when the system does not report it
};

// Data and unified caches of one processor.
std::vector<Cache> caches_of(int processor) {
  std::vector<Cache> caches;
  for (int index = 0; index < 8; ++index) {
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(processor) + "/cache/index" +
                               std::to_string(index) + "/";
    std::string level, type, size, sharers;
    std::ifstream(folder + "level") >> level;
    std::ifstream(folder + "type") >> type;
    std::ifstream(folder + "size") >> size;
    std::ifstream(folder + "shared_cpu_list") >> sharers;
    if (!level.empty() && type != "Instruction") {
      caches.push_back({std::atoll(level.c_str()), parse_size(size), sharers});
    }
  }
  return caches;
}

CacheSizes read_cache_sizes() {
  CacheSizes sizes{0, 0, 0};
  for (const Cache& cache : caches_of(0)) {
    if (cache.level == 1) sizes.l1d_bytes = cache.bytes;
    if (cache.level == 2) sizes.l2_bytes = cache.bytes;
    if (cache.level == 3) sizes.l3_bytes = cache.bytes;
  }
  return sizes;
}
#endif

#ifdef __linux__
// The last cache of each usable processor, each one counted once however many processors share it.
int64_t sum_last_level_caches() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return 0;
  std::map<std::string, int64_t> bytes_by_sharers;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &usable)) continue;
    Cache last{0, 0, {}};
    for (const Cache& cache : caches_of(processor)) {
      if (cache.level > last.level) last = cache;
    }
    bytes_by_sharers[last.sharers] = last.bytes;
  }
  int64_t sum = 0;
  for (const auto& [sharers, bytes] : bytes_by_sharers) sum += bytes;
  return sum;
}
#else
int64_t sum_last_level_caches() { return 0; }
#endif

}  // namespace

const char* simd_name(Simd level) {
  switch (level) {
    case Simd::avx2:
      return "avx2";
    case Simd::avx512:
      return "avx512";
    case Simd::neon:
      return "neon";
    default:
      return "generic";
  }
}

const std::vector<Simd>& compiled_simd() {
  static const std::vector<Simd> levels = {
      Simd::generic,
#ifdef PROFKIT_HAS_AVX2
      Simd::avx2,
#endif
#ifdef PROFKIT_HAS_AVX512
      Simd::avx512,
#endif
#ifdef PROFKIT_HAS_NEON
      Simd::neon,
#endif
  };
  return levels;
}

const std::vector<Simd>& processor_simd() {
  static const std::vector<Simd> levels = runnable({Simd::generic, Simd::avx2, Simd::avx512, Simd::neon});
  return levels;
}

const std::vector<Simd>& supported_simd() {
  static const std::vector<Simd> levels = runnable(compiled_simd());
  return levels;
}

Simd active_simd() {
  static const Simd level = choose_simd();
  return level;
}

std::string vector_code_is_missing() {
  const std::string advice = supported_simd().size() > 1 ? "" : ": build profkit on this machine";
  return "it has no portable code, as implicit_gemm and reference have; " +
         std::string(simd_name(active_simd())) + " is in use, this build has " + names(compiled_simd()) +
         ", this processor runs " + names(processor_simd()) + advice;
}

const CacheSizes& cache_sizes() {
  static const CacheSizes sizes = read_cache_sizes();
  return sizes;
}

int64_t last_level_caches_bytes() {
  const CacheSizes& sizes = cache_sizes();
  const int64_t largest =
      std::max({sum_last_level_caches(), sizes.l1d_bytes, sizes.l2_bytes, sizes.l3_bytes});
  return largest > 0 ? largest : int64_t{32} << 20;
}

}  // namespace profkit
