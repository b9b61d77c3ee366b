#include "cudart_double_launch.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "runtime/cuda_hold.cuh"
#include "simt_launch.h"

namespace cudart_double {
namespace {

// The timer's kernel has no launcher among the emulated sources that would enrol it.
[[maybe_unused]] const bool has_hold = simt::Emulated<&profkit::cuda::hold_stream>::is_enrolled;

std::atomic<long long> made_up_ns{0};

// What the test wants of this kernel instead of its work, as cudart_double_state.h has it; empty: nothing.
std::string manner_of(const std::string& name) {
  const char* const wanted = std::getenv("PROFKIT_CUDA_DOUBLE_MANNER");
  const std::string text = wanted == nullptr ? "" : wanted;
  const size_t at = text.find('@');
  return at != std::string::npos && name.find(text.substr(at + 1)) != std::string::npos ? text.substr(0, at)
                                                                                        : "";
}

}  // namespace

std::function<void()> bound_kernel(const char* name, Extent grid, Extent block, size_t dynamic_shared_bytes,
                                   void** arguments) {
  const simt::Binder bind = simt::binder_of(name);
  if (bind == nullptr) return {};
  const auto work =
      bind(dim3(grid.x, grid.y, grid.z), dim3(block.x, block.y, block.z), dynamic_shared_bytes, arguments);
  const std::string manner = manner_of(name);
  if (manner == "idle") return [] {};
  if (manner == "once") {
    static std::atomic<int> launches{0};
    if (++launches % 2 == 0) return [] {};
    return work;
  }
  if (manner == "failing") return [] { throw std::runtime_error("fails as the test wants it"); };
  if (manner == "hanging") {
    return [] {
      while (true) pause();
    };
  }
  if (manner == "killing") return [] { std::abort(); };
  if (!manner.empty()) std::abort();
  const long long threads = 1LL * grid.x * grid.y * grid.z * block.x * block.y * block.z;
  return [work, threads] {
    work();
    made_up_ns += 1000 * threads;
  };
}

long long device_ns() {
  static const char* const clock = std::getenv("PROFKIT_CUDA_DOUBLE_CLOCK");
  if (clock != nullptr && std::string(clock) == "threads") return made_up_ns;
  static const double speed = clock == nullptr ? 1.0 : std::atof(clock);
  static const auto begin = std::chrono::steady_clock::now();
  const auto passed = std::chrono::steady_clock::now() - begin;
  return static_cast<long long>(
      speed * static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count()));
}

}  // namespace cudart_double
