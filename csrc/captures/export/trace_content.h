// What a trace file shows, the same for every format: views of columns prepared by
// profkit/rendering/traces/content.py. The serialisers (chrome_trace, perfetto_trace) read it and hand bytes
// to a writer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace profkit::captures {

// A payload as the number that its type says.
template <class Number>
Number from_bits(uint64_t bits) {
  Number value;
  static_assert(sizeof(Number) <= sizeof bits);
  std::memcpy(&value, &bits, sizeof value);  // little endian: the low bytes
  return value;
}

struct TraceProcess {
  int32_t pid;
  std::string_view name;
  std::vector<std::string_view> command;
  bool is_gpu = false;  // stands for a GPU in formats that know nothing but processes
};

struct TraceTrack {
  int32_t process;
  int32_t tid;
  std::string_view name;
  int32_t rank;        // order within the process
  int32_t thread;      // the track of the thread beside which this lane stands; -1: this is a thread
  int32_t queue = -1;  // the queue of a GPU of which this is a lane; -1: of the host
};

struct TraceGpu {
  int32_t id;
  std::string_view name, architecture;
  std::vector<std::pair<std::string_view, std::string_view>> about;
};

// A stream of a GPU, as one process uses it.
struct TraceQueue {
  int32_t gpu;      // its id
  int32_t process;  // of the host
  std::string_view name;
};

// How kernels were launched; a negative number is not known.
struct TraceLaunches {
  size_t count = 0;
  const int32_t *grid[3] = {}, *block[3] = {};
  const int32_t *registers = nullptr, *static_shared_bytes = nullptr, *dynamic_shared_bytes = nullptr;

  // Both kinds together; -1 where neither is known.
  int64_t shared_bytes(size_t row) const {
    const int64_t fixed = static_shared_bytes[row], dynamic = dynamic_shared_bytes[row];
    return fixed < 0 ? dynamic : fixed + (dynamic < 0 ? 0 : dynamic);
  }
};

// Arrows from a host's event to the GPU's event that it asked for, in order of `from`.
struct TraceFlows {
  size_t count = 0;
  const int32_t *from = nullptr, *to = nullptr;  // rows of the events
};

enum class EventShape : uint8_t { slice = 0, instant = 1 };

// Within one track in order of start, parents before children; tracks in any order.
struct TraceEvents {
  size_t count = 0;
  const uint8_t* shape = nullptr;  // EventShape
  const int32_t* track = nullptr;
  const int32_t* depth = nullptr;  // slices open around it in its track
  const int64_t *start_ns = nullptr, *end_ns = nullptr;
  const int32_t *name = nullptr, *category = nullptr;  // strings; category -1 none
  const uint8_t* payload_type = nullptr;               // tracer::PayloadType; null: no event has one
  const uint64_t* payload = nullptr;
  const int32_t* flow = nullptr;    // id of the arrow that starts here, negative: that ends here; 0 none
  const int32_t* launch = nullptr;  // row of TraceLaunches; -1: no kernel; null: no event is one
};

// One argument of the events: values[event] is a string or a count; negative: that event has none.
struct TextArgument {
  int32_t name;
  const int32_t* values;
};
struct CountArgument {
  int32_t name;
  const int64_t* values;
};

struct TraceCounter {
  int32_t process;
  std::string_view name;
  std::string_view unit;  // Chrome shows "name unit"; "bytes" is known to Perfetto
  size_t count;
  const int64_t *time_ns, *value;
};

struct TraceContent {
  int64_t base_unix_ns = 0;  // the time of day at 0
  std::vector<std::string_view> strings;
  int32_t payload_name = -1, payload_bytes_name = -1;  // strings
  std::vector<TraceProcess> processes;
  std::vector<TraceTrack> tracks;
  TraceEvents events;
  std::vector<TextArgument> texts;
  std::vector<CountArgument> counts;
  std::vector<TraceCounter> counters;
  std::vector<TraceGpu> gpus;
  std::vector<TraceQueue> queues;
  TraceLaunches launches;
  TraceFlows flows;
  const int32_t* labels = nullptr;  // of each string: a shorter one for slices of GPUs, -1 none; may be null
  std::vector<std::pair<std::string_view, std::string_view>>
      members;                                                       // of a Chrome trace's object: name, JSON
  std::vector<std::pair<std::string_view, std::string_view>> about;  // what is said about the capture itself
};

using WriteBytes = std::function<void(const char*, size_t)>;

void write_chrome(const TraceContent& content, const WriteBytes& write);
void write_perfetto(const TraceContent& content, const WriteBytes& write);

}  // namespace profkit::captures
