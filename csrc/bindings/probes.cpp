// Access for tests to parts of the runtime that no public function shows: the thread pool (how often each
// part ran, with a part that throws or parts that nest) and the checks of the registry.
#include <pybind11/stl.h>

#include <chrono>
#include <string>
#include <vector>

#include "bindings/kernels/arguments.h"
#include "bindings/module.h"
#include "kernels/operators.h"
#include "runtime/check.h"
#include "runtime/threads.h"

namespace py = pybind11;

namespace profkit {
namespace {

// Runs `threads` parts, each of which starts `nested` further parts; returns how often every inner part
// ran, [thread * nested + part]. The part of `throwing_thread` throws after its work.
std::vector<int> probe_parallel(int64_t threads, int64_t nested, int64_t throwing_thread) {
  const int outer = checked_threads(threads), inner = checked_threads(nested);
  std::vector<int> runs(static_cast<size_t>(outer) * static_cast<size_t>(inner), 0);
  const py::gil_scoped_release release;
  parallel(outer, [&](int thread) {
    parallel(inner, [&](int part) {
      ++runs[static_cast<size_t>(thread) * static_cast<size_t>(inner) + static_cast<size_t>(part)];
    });
    if (thread == throwing_thread) throw KernelError("part " + std::to_string(thread) + " was made to fail");
  });
  return runs;
}

// Nanoseconds from the start to the end of each of `rounds` empty jobs of `threads` parts, with `gap_ns` of
// waiting between them: what a fork and its join cost while the workers still spin, or after they slept.
std::vector<int64_t> probe_fork_join(int64_t threads, int64_t rounds, int64_t gap_ns) {
  using Clock = std::chrono::steady_clock;
  const int parts = checked_threads(threads);
  if (rounds < 1 || gap_ns < 0) throw KernelError("rounds must be positive and the gap not negative");
  std::vector<int64_t> times(static_cast<size_t>(rounds));
  const py::gil_scoped_release release;
  for (int64_t& time : times) {
    const auto begin = Clock::now();
    parallel(parts, [](int) {});
    const auto end = Clock::now();
    time = std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
    while (Clock::now() < end + std::chrono::nanoseconds(gap_ns)) {
    }
  }
  return times;
}

// Two rows of one key, as a careless edit of cpu/kernels.cpp would make them.
void probe_duplicate_keys() {
  const Kernel<profkit_softmax_params> row = {"softmax/native/cpu/twin", nullptr, nullptr, nullptr};
  unique_rows<Kernel<profkit_softmax_params>>({row, row});
}

// The error of a kernel that refuses parameters, whether or not one of this build does.
void probe_unsupported(const std::string& reason) { throw UnsupportedError(reason); }

}  // namespace

void register_probes(py::module_& module) {
  module.def("probe_parallel", &probe_parallel, py::arg("threads"), py::arg("nested") = 1,
             py::arg("throwing_thread") = -1);
  module.def("probe_fork_join", &probe_fork_join, py::arg("threads"), py::arg("rounds"),
             py::arg("gap_ns") = 0);
  module.def("probe_duplicate_keys", &probe_duplicate_keys);
  module.def("probe_unsupported", &probe_unsupported, py::arg("reason"));
}

}  // namespace profkit
