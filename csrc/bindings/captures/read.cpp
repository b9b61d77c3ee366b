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

py::dict device_dict(captures::DeviceColumns&& device) {
  py::dict result;
  result["activities"] = to_dict(std::move(device.activities));
  result["calls"] = to_dict(std::move(device.calls));
  result["memory"] = to_dict(std::move(device.memory));
  result["pools"] = to_dict(std::move(device.pools));
  result["overhead"] = to_dict(std::move(device.overhead));
  result["devices"] = to_dict(std::move(device.devices));
  return result;
}

py::dict device_counts_dict(const captures::DeviceCounts& counts) {
  py::dict result;
  result["entries"] = counts.entries;
  result["dropped_by_cupti"] = counts.dropped_by_cupti;
  result["dropped_too_slow"] = counts.dropped_too_slow;
  result["unknown_records"] = counts.unknown_records;
  result["cut_records"] = counts.cut_records;
  result["unfinished"] = counts.unfinished;
  result["correlations_without_call"] = counts.correlations_without_call;
  result["clock_error_ns"] = counts.clock_error_ns;
  result["clock_steps"] = counts.clock_steps;
  return result;
}

py::dict process_dict(const captures::Process& process) {
  py::dict result;
  result["description"] = process.description;
  result["id"] = process.id;
  result["start_ns"] = process.start_ns;
  result["end_ns"] = process.end_ns;
  result["has_ended"] = process.has_ended;
  result["empty_range_ns"] = process.empty_range_ns;
  result["clock_read_ns"] = process.clock_read_ns;
  result["cross_core_skew_ns"] = process.cross_core_skew_ns;
  result["clock_rate"] = process.clock_rate;
  result["clock_drift_ppm"] = process.clock_drift_ppm;
  result["clock_error_ns"] = process.clock_error_ns;
  result["frees_of_unknown"] = process.frees_of_unknown;
  result["device"] = device_counts_dict(process.device);
  return result;
}

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
  return result;
}

Capture read_without_gil(const std::string& path, size_t max_rows) {
  const py::gil_scoped_release release;
  return captures::read_capture(path, max_rows);
}

py::dict read_capture(const std::string& path, size_t max_rows) {
  Capture capture = read_without_gil(path, std::min(max_rows, captures::kMaxRows));
  py::list processes;
  for (const captures::Process& process : capture.processes) processes.append(process_dict(process));
  py::dict result;
  result["capture_id"] = capture.capture_id;
  result["created_unix_ns"] = capture.created_unix_ns;
  result["origin_monotonic_ns"] = capture.origin_monotonic_ns;
  result["counters"] = counters_dict(capture.counters);
  result["warnings"] = capture.warnings;
  result["strings"] = capture.strings;
  result["processes"] = processes;
  result["threads"] = to_dict(std::move(capture.threads));
  result["ranges"] = to_dict(std::move(capture.ranges));
  result["allocations"] = to_dict(std::move(capture.allocations));
  result["samples"] = to_dict(std::move(capture.samples));
  result["device"] = device_dict(std::move(capture.device));
  return result;
}

}  // namespace

void register_captures(py::module_& module) {
  module.def("read_capture", &read_capture, py::arg("path"), py::arg("max_rows") = captures::kMaxRows);
}

}  // namespace profkit
