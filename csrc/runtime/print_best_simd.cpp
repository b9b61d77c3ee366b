// CMake runs this to learn the build machine's best instruction set.
#include <cstdio>

#include "runtime/processor_simd.h"

int main() {
  using profkit::Simd;
  std::puts(processor_runs(Simd::avx512) ? "avx512" : processor_runs(Simd::avx2) ? "avx2" : "generic");
}
