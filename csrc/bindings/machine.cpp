// Peaks, caches, processor features and build facts.
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bindings/kernels/arguments.h"
#include "bindings/module.h"
#include "runtime/check.h"
#include "runtime/cpu_features.h"
#include "runtime/nvtx_emit.h"
#include "runtime/peak.h"

namespace py = pybind11;

namespace profkit {
namespace {

std::vector<std::string> names(const std::vector<Simd>& levels) {
  std::vector<std::string> result;
  for (Simd level : levels) result.emplace_back(simd_name(level));
  return result;
}

bool is_double(const std::string& dtype) {
  if (dtype != "float32" && dtype != "float64") {
    throw KernelError("dtype must be float32 or float64, got " + dtype);
  }
  return dtype == "float64";
}

double peak_flops(const std::string& dtype, int64_t threads) {
  const int count = checked_threads(threads);
  const bool wide = is_double(dtype);
  const Simd level = active_simd();
  const py::gil_scoped_release release;
  return peak_flops_per_s(level, wide, count);
}

double copy_bandwidth(int64_t threads) {
  const int count = checked_threads(threads);
  const py::gil_scoped_release release;
  return copy_bytes_per_s(count);
}

double round_trip(int64_t processor, int64_t other) {
  constexpr int64_t kMostProcessors = 1024;  // of a cpu_set_t
  if (std::min(processor, other) < 0 || std::max(processor, other) >= kMostProcessors) return 0;
  const py::gil_scoped_release release;
  return round_trip_ns(static_cast<int>(processor), static_cast<int>(other));
}

py::dict cpu_features() {
  py::dict result;
  result["simd_processor"] = names(processor_simd());
  result["simd_compiled"] = names(compiled_simd());
  result["simd_supported"] = names(supported_simd());
  result["simd_active"] = simd_name(active_simd());
  result["l1d_bytes"] = cache_sizes().l1d_bytes;
  result["l2_bytes"] = cache_sizes().l2_bytes;
  result["l3_bytes"] = cache_sizes().l3_bytes;
  return result;
}

py::dict build_info() {
  py::dict result;
  result["compiler"] = PROFKIT_BUILD_COMPILER;
  result["build_type"] = PROFKIT_BUILD_TYPE;
  result["flags"] = PROFKIT_BUILD_FLAGS;
  result["simd"] = PROFKIT_BUILD_SIMD;
  result["simd_flags"] = PROFKIT_BUILD_SIMD_FLAGS;
  result["cuda"] = static_cast<bool>(PROFKIT_BUILD_CUDA);
  result["nvtx"] = nvtx_compiled();
  return result;
}

}  // namespace

void register_machine(py::module_& module) {
  module.def("peak_flops", &peak_flops, py::arg("dtype"), py::arg("threads"));
  module.def("copy_bandwidth", &copy_bandwidth, py::arg("threads"));
  module.def("round_trip_ns", &round_trip, py::arg("processor"), py::arg("other"));
  module.def("cpu_features", &cpu_features);
  module.def("build_info", &build_info);
}

}  // namespace profkit
