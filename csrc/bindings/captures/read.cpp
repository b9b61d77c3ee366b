// Captures for Python: columns as NumPy arrays that own the reader's memory; nothing is copied.
#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings/captures/arrays.h"
#include "bindings/module.h"
#include "captures/read/reader.h"

namespace py = pybind11;

namespace profkit {
namespace {

using captures::Capture;

py::dict counters_dict(const tracer::FileCounters& counters) {
  py::dict result;
  result["dropped_records"] = counters.dropped_records;
  result["dropped_disk_full"] = counters.dropped_disk_full;
  result["dropped_too_slow"] = counters.dropped_too_slow;
  result["dropped_too_deep"] = counters.dropped_too_deep;
  result["stalled_ns"] = counters.stalled_ns;
  result["processes_started"] = counters.processes_started;
  result["processes_ended"] = counters.processes_ended;
  result["replaced_names"] = counters.replaced_names;
  result["dropped_device"] = counters.dropped_device;
  result["untraced_execs"] = counters.untraced_execs;
  return result;
}

Capture read_without_gil(const std::string& path, size_t max_rows) {
  const py::gil_scoped_release release;
  return captures::read_capture(path, max_rows);
}

py::dict read_capture(const std::string& path, size_t max_rows) {
  Capture capture = read_without_gil(path, std::min(max_rows, captures::kMaxRows));
  py::list processes;
  for (captures::Process& process : capture.processes) processes.append(to_dict(std::move(process)));
  py::dict result;
  result["created_unix_ns"] = capture.created_unix_ns;
  result["counters"] = counters_dict(capture.counters);
  result["warnings"] = capture.warnings;
  result["strings"] = capture.strings;
  result["processes"] = processes;
  result["threads"] = to_dict(std::move(capture.threads));
  result["ranges"] = to_dict(std::move(capture.ranges));
  result["allocations"] = to_dict(std::move(capture.allocations));
  result["samples"] = to_dict(std::move(capture.samples));
  result["device"] = to_dict(std::move(capture.device));
  return result;
}

}  // namespace

void register_captures(py::module_& module) {
  module.def("read_capture", &read_capture, py::arg("path"), py::arg("max_rows") = captures::kMaxRows);
}

}  // namespace profkit
