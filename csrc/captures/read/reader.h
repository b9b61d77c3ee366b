// Reads a capture file into columns. Damage never crashes it: what is intact is decoded, the rest is named in
// `warnings`. Nothing of Python here.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "captures/members.h"
#include "captures/read/device/columns.h"
#include "tracer/file/format.h"

namespace profkit::captures {

// The file cannot be used at all (missing, foreign, newer, header damaged): the message has the next step.
struct CaptureError {
  std::string message;
};

// Rows are grouped by thread and ordered by begin: a parent's row comes before its children's.
struct RangeColumns {
  std::vector<uint8_t> kind;  // RangeKind
  std::vector<uint8_t> source;
  std::vector<int32_t> thread, end_thread;      // rows of `threads`
  std::vector<int64_t> start_ns, end_ns;        // a mark has both equal
  std::vector<int32_t> name, domain, category;  // strings; -1 none
  std::vector<uint32_t> colour;
  std::vector<uint8_t> payload_type;  // tracer::PayloadType; 0 none
  std::vector<uint64_t> payload;      // bits
  std::vector<int32_t> parent;   // row of the innermost range that was open and encloses it; -1 none. For
                                 // spans and marks: the range in which they began.
  std::vector<int32_t> depth;    // number of ancestors
  std::vector<uint8_t> is_open;  // no end was recorded: end_ns is the last time known of its thread's process
  // -1 when not recorded
  std::vector<int64_t> minor_faults, major_faults, voluntary_switches, involuntary_switches;

  PROFKIT_MEMBERS(kind, source, thread, end_thread, start_ns, end_ns, name, domain, category, colour,
                  payload_type, payload, parent, depth, is_open, minor_faults, major_faults,
                  voluntary_switches, involuntary_switches)
};
enum class RangeKind : uint8_t { range = 0, span = 1, mark = 2 };

// In order of time_ns within a process.
struct AllocationColumns {
  std::vector<int32_t> thread, range;  // rows; range -1: no range was open
  std::vector<int64_t> time_ns;
  std::vector<uint8_t> call;  // tracer::AllocationCall
  std::vector<uint64_t> address, bytes;
  std::vector<int64_t> free_time_ns;             // -1: not freed while recording
  std::vector<int32_t> free_thread, free_range;  // -1 likewise; free_thread -1 alone: thread not known
  std::vector<uint8_t> is_part;  // a further piece of a mapping unmapped in pieces: not a separate call

  PROFKIT_MEMBERS(thread, range, time_ns, call, address, bytes, free_time_ns, free_thread, free_range,
                  is_part)
};

struct ThreadColumns {
  std::vector<int32_t> process;
  std::vector<uint32_t> index;
  std::vector<uint64_t> os_thread_id;
  std::vector<int32_t> name;  // strings
  std::vector<int64_t> start_ns,
      end_ns;  // first and last time known; a process's first thread spans the process
  std::vector<uint64_t> small_allocations, small_allocated_bytes, unbalanced_pops, dropped;

  PROFKIT_MEMBERS(process, index, os_thread_id, name, start_ns, end_ns, small_allocations,
                  small_allocated_bytes, unbalanced_pops, dropped)
};

struct SampleColumns {
  std::vector<int32_t> process;
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> resident_bytes;

  PROFKIT_MEMBERS(process, time_ns, resident_bytes)
};

struct Process {
  std::string description;  // JSON as recorded; "{}" when that block is lost
  int64_t start_ns = 0, end_ns = 0;
  bool has_ended = false;  // false: it was killed or crashed
  double empty_range_ns = 0, clock_read_ns = 0, cross_core_skew_ns = -1;
  double clock_drift_ppm = 0;     // largest deviation of the rate between two sync points from the mean rate
  double clock_error_ns = 0;      // bound on a time's error from the sync points' uncertainty
  uint64_t frees_of_unknown = 0;  // releases whose allocation was not recorded
  DeviceCounts device;

  PROFKIT_MEMBERS(description, start_ns, end_ns, has_ended, empty_range_ns, clock_read_ns, cross_core_skew_ns,
                  clock_drift_ppm, clock_error_ns, frees_of_unknown, device)
};

struct Capture {
  int64_t created_unix_ns = 0;
  int64_t origin_monotonic_ns = 0;  // all *_ns above count from here
  tracer::FileCounters counters{};
  std::vector<std::string> warnings;
  std::vector<std::string> strings;  // valid UTF-8
  std::vector<Process> processes;
  ThreadColumns threads;
  RangeColumns ranges;
  AllocationColumns allocations;
  SampleColumns samples;
  DeviceColumns device;
};

// The limit of row numbers.
constexpr size_t kMaxRows = std::numeric_limits<int32_t>::max() - 1;

// Throws CaptureError. Ranges and allocations beyond `max_rows` each are left out and counted in a warning.
Capture read_capture(const std::string& path, size_t max_rows = kMaxRows);
// The same on bytes in memory, for tests and fuzzing.
Capture decode_capture(const uint8_t* data, size_t size, size_t max_rows = kMaxRows);

}  // namespace profkit::captures
