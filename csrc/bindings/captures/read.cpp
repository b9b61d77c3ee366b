// Captures for Python: columns as NumPy arrays that own the reader's memory; nothing is copied.
#include "bindings/captures/read.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "captures/read/reader.h"

namespace py = pybind11;

namespace profkit {
namespace {

using captures::Capture;

template <typename T>
py::array as_array(std::vector<T>&& column, const py::dtype& dtype) {
  auto owner = std::make_unique<std::vector<T>>(std::move(column));
  const std::vector<T>& kept = *owner;
  const py::capsule keeper(owner.get(), [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  static_cast<void>(owner.release());  // the capsule has it now
  return py::array(dtype, {static_cast<py::ssize_t>(kept.size())}, {static_cast<py::ssize_t>(sizeof(T))},
                   kept.data(), keeper);
}

template <typename T>
py::array as_array(std::vector<T>&& column) {
  return as_array(std::move(column), py::dtype::of<T>());
}

py::dict ranges_dict(captures::RangeColumns&& ranges) {
  py::dict result;
  result["kind"] = as_array(std::move(ranges.kind));
  result["source"] = as_array(std::move(ranges.source));
  result["thread"] = as_array(std::move(ranges.thread));
  result["end_thread"] = as_array(std::move(ranges.end_thread));
  result["start_ns"] = as_array(std::move(ranges.start_ns));
  result["end_ns"] = as_array(std::move(ranges.end_ns));
  result["name"] = as_array(std::move(ranges.name));
  result["domain"] = as_array(std::move(ranges.domain));
  result["category"] = as_array(std::move(ranges.category));
  result["colour"] = as_array(std::move(ranges.colour));
  result["payload_type"] = as_array(std::move(ranges.payload_type));
  result["payload"] = as_array(std::move(ranges.payload));
  result["parent"] = as_array(std::move(ranges.parent));
  result["depth"] = as_array(std::move(ranges.depth));
  result["is_open"] = as_array(std::move(ranges.is_open), py::dtype("bool"));
  result["minor_faults"] = as_array(std::move(ranges.minor_faults));
  result["major_faults"] = as_array(std::move(ranges.major_faults));
  result["voluntary_switches"] = as_array(std::move(ranges.voluntary_switches));
  result["involuntary_switches"] = as_array(std::move(ranges.involuntary_switches));
  return result;
}

py::dict allocations_dict(captures::AllocationColumns&& allocations) {
  py::dict result;
  result["thread"] = as_array(std::move(allocations.thread));
  result["range"] = as_array(std::move(allocations.range));
  result["time_ns"] = as_array(std::move(allocations.time_ns));
  result["call"] = as_array(std::move(allocations.call));
  result["address"] = as_array(std::move(allocations.address));
  result["bytes"] = as_array(std::move(allocations.bytes));
  result["free_time_ns"] = as_array(std::move(allocations.free_time_ns));
  result["free_thread"] = as_array(std::move(allocations.free_thread));
  result["free_range"] = as_array(std::move(allocations.free_range));
  result["is_part"] = as_array(std::move(allocations.is_part), py::dtype("bool"));
  return result;
}

py::dict threads_dict(captures::ThreadColumns&& threads) {
  py::dict result;
  result["process"] = as_array(std::move(threads.process));
  result["index"] = as_array(std::move(threads.index));
  result["os_thread_id"] = as_array(std::move(threads.os_thread_id));
  result["name"] = as_array(std::move(threads.name));
  result["start_ns"] = as_array(std::move(threads.start_ns));
  result["end_ns"] = as_array(std::move(threads.end_ns));
  result["small_allocations"] = as_array(std::move(threads.small_allocations));
  result["small_allocated_bytes"] = as_array(std::move(threads.small_allocated_bytes));
  result["unbalanced_pops"] = as_array(std::move(threads.unbalanced_pops));
  result["dropped"] = as_array(std::move(threads.dropped));
  return result;
}

py::dict samples_dict(captures::SampleColumns&& samples) {
  py::dict result;
  result["process"] = as_array(std::move(samples.process));
  result["time_ns"] = as_array(std::move(samples.time_ns));
  result["resident_bytes"] = as_array(std::move(samples.resident_bytes));
  return result;
}

py::dict device_activities_dict(captures::DeviceActivityColumns&& activities) {
  py::dict result;
  result["kind"] = as_array(std::move(activities.kind));
  result["process"] = as_array(std::move(activities.process));
  result["device"] = as_array(std::move(activities.device));
  result["context"] = as_array(std::move(activities.context));
  result["stream"] = as_array(std::move(activities.stream));
  result["start_ns"] = as_array(std::move(activities.start_ns));
  result["end_ns"] = as_array(std::move(activities.end_ns));
  result["queued_ns"] = as_array(std::move(activities.queued_ns));
  result["name"] = as_array(std::move(activities.name));
  result["correlation"] = as_array(std::move(activities.correlation));
  result["graph_node"] = as_array(std::move(activities.graph_node));
  result["bytes"] = as_array(std::move(activities.bytes));
  result["copy_kind"] = as_array(std::move(activities.copy_kind));
  result["source_kind"] = as_array(std::move(activities.source_kind));
  result["target_kind"] = as_array(std::move(activities.target_kind));
  result["grid_x"] = as_array(std::move(activities.grid_x));
  result["grid_y"] = as_array(std::move(activities.grid_y));
  result["grid_z"] = as_array(std::move(activities.grid_z));
  result["block_x"] = as_array(std::move(activities.block_x));
  result["block_y"] = as_array(std::move(activities.block_y));
  result["block_z"] = as_array(std::move(activities.block_z));
  result["registers"] = as_array(std::move(activities.registers));
  result["static_shared_bytes"] = as_array(std::move(activities.static_shared_bytes));
  result["dynamic_shared_bytes"] = as_array(std::move(activities.dynamic_shared_bytes));
  return result;
}

py::dict device_calls_dict(captures::DeviceCallColumns&& calls) {
  py::dict result;
  result["process"] = as_array(std::move(calls.process));
  result["os_thread_id"] = as_array(std::move(calls.os_thread_id));
  result["start_ns"] = as_array(std::move(calls.start_ns));
  result["end_ns"] = as_array(std::move(calls.end_ns));
  result["name"] = as_array(std::move(calls.name));
  result["correlation"] = as_array(std::move(calls.correlation));
  result["return_code"] = as_array(std::move(calls.return_code));
  result["is_driver"] = as_array(std::move(calls.is_driver), py::dtype("bool"));
  result["has_token"] = as_array(std::move(calls.has_token), py::dtype("bool"));
  result["token_range"] = as_array(std::move(calls.token_range));
  return result;
}

py::dict device_memory_dict(captures::DeviceMemoryColumns&& memory) {
  py::dict result;
  result["process"] = as_array(std::move(memory.process));
  result["device"] = as_array(std::move(memory.device));
  result["time_ns"] = as_array(std::move(memory.time_ns));
  result["address"] = as_array(std::move(memory.address));
  result["pool"] = as_array(std::move(memory.pool));
  result["bytes"] = as_array(std::move(memory.bytes));
  result["kind"] = as_array(std::move(memory.kind));
  result["correlation"] = as_array(std::move(memory.correlation));
  return result;
}

py::dict device_pools_dict(captures::DevicePoolColumns&& pools) {
  py::dict result;
  result["process"] = as_array(std::move(pools.process));
  result["device"] = as_array(std::move(pools.device));
  result["time_ns"] = as_array(std::move(pools.time_ns));
  result["address"] = as_array(std::move(pools.address));
  result["reserved_bytes"] = as_array(std::move(pools.reserved_bytes));
  result["used_bytes"] = as_array(std::move(pools.used_bytes));
  result["operation"] = as_array(std::move(pools.operation));
  return result;
}

py::dict device_overhead_dict(captures::DeviceOverheadColumns&& overhead) {
  py::dict result;
  result["process"] = as_array(std::move(overhead.process));
  result["start_ns"] = as_array(std::move(overhead.start_ns));
  result["end_ns"] = as_array(std::move(overhead.end_ns));
  result["kind"] = as_array(std::move(overhead.kind));
  return result;
}

py::dict device_devices_dict(captures::DeviceDeviceColumns&& devices) {
  py::dict result;
  result["process"] = as_array(std::move(devices.process));
  result["name"] = as_array(std::move(devices.name));
  result["id"] = as_array(std::move(devices.id));
  result["capability_major"] = as_array(std::move(devices.capability_major));
  result["capability_minor"] = as_array(std::move(devices.capability_minor));
  result["multiprocessors"] = as_array(std::move(devices.multiprocessors));
  result["warps_per_multiprocessor"] = as_array(std::move(devices.warps_per_multiprocessor));
  result["shared_bytes_per_multiprocessor"] = as_array(std::move(devices.shared_bytes_per_multiprocessor));
  result["core_clock_khz"] = as_array(std::move(devices.core_clock_khz));
  result["l2_bytes"] = as_array(std::move(devices.l2_bytes));
  result["memory_bytes"] = as_array(std::move(devices.memory_bytes));
  result["memory_bandwidth"] = as_array(std::move(devices.memory_bandwidth));
  return result;
}

py::dict device_dict(captures::DeviceColumns&& device) {
  py::dict result;
  result["activities"] = device_activities_dict(std::move(device.activities));
  result["calls"] = device_calls_dict(std::move(device.calls));
  result["memory"] = device_memory_dict(std::move(device.memory));
  result["pools"] = device_pools_dict(std::move(device.pools));
  result["overhead"] = device_overhead_dict(std::move(device.overhead));
  result["devices"] = device_devices_dict(std::move(device.devices));
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
  result["threads"] = threads_dict(std::move(capture.threads));
  result["ranges"] = ranges_dict(std::move(capture.ranges));
  result["allocations"] = allocations_dict(std::move(capture.allocations));
  result["samples"] = samples_dict(std::move(capture.samples));
  result["device"] = device_dict(std::move(capture.device));
  return result;
}

}  // namespace

void register_captures(py::module_& module) {
  module.def("read_capture", &read_capture, py::arg("path"), py::arg("max_rows") = captures::kMaxRows);
}

}  // namespace profkit
