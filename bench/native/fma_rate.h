// What benchmarks of kernel code compare with: the rate of a loop of FMAs on registers.
#pragma once

#include <chrono>

#include "runtime/cpu_fma_loop.inl"

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

extern "C" double fma_gflops(int64_t iterations) {
  int64_t flops = 0;
  const auto begin = std::chrono::steady_clock::now();
  volatile double result = profkit::PROFKIT_ISA::fma_loop_f32(iterations, &flops);
  (void)result;
  return 1e-9 * static_cast<double>(flops * iterations) / seconds_since(begin);
}
