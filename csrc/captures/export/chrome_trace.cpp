// TraceContent -> Chrome's trace event format (JSON object form), one event per line.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "captures/export/output_buffer.h"
#include "captures/export/trace_content.h"
#include "tracer/file/format.h"

namespace profkit::captures {
namespace {

// A number and its punctuation never take more.
constexpr size_t kNumberBytes = 32;
// The arguments of a launch: their names and eight numbers.
constexpr size_t kLaunchBytes = 96 + 8 * kNumberBytes;
// JSON readers keep numbers as doubles; a larger integer is written as a string, with all its digits.
constexpr uint64_t kLargestExact = uint64_t{1} << 53;

char* put(char* at, std::string_view text) {
  std::memcpy(at, text.data(), text.size());
  return at + text.size();
}

template <class Number>
char* put_number(char* at, Number value) {
  return std::to_chars(at, at + kNumberBytes, value).ptr;
}

// Nanoseconds as microseconds with exactly three decimals, by integers alone.
char* put_microseconds(char* at, int64_t ns) {
  uint64_t magnitude = static_cast<uint64_t>(ns);
  if (ns < 0) {
    *at++ = '-';
    magnitude = 0 - magnitude;
  }
  at = put_number(at, magnitude / 1000);
  const auto rest = static_cast<unsigned>(magnitude % 1000);
  *at++ = '.';
  *at++ = static_cast<char>('0' + rest / 100);
  *at++ = static_cast<char>('0' + rest / 10 % 10);
  *at++ = static_cast<char>('0' + rest % 10);
  return at;
}

// The string as JSON, with its quotes. Bytes from 0x80 on are UTF-8 already.
std::string quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\u00";
      out += {kHex[byte >> 4], kHex[byte & 15]};
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string place(int32_t pid, int32_t tid) {
  return "\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid);
}

template <class Number>
char* put_integer(char* at, Number value) {
  const bool exact = value < 0 ? 0 - static_cast<uint64_t>(value) <= kLargestExact
                               : static_cast<uint64_t>(value) <= kLargestExact;
  if (exact) return put_number(at, value);
  *at++ = '"';
  at = put_number(at, value);
  *at++ = '"';
  return at;
}

template <class Real>
char* put_real(char* at, Real value) {
  if (std::isfinite(value)) return put_number(at, value);
  if (std::isnan(value)) return put(at, "\"NaN\"");
  return put(at, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
}

char* put_payload(char* at, tracer::PayloadType type, uint64_t bits) {
  switch (type) {
    case tracer::PayloadType::int64:
      return put_integer(at, from_bits<int64_t>(bits));
    case tracer::PayloadType::int32:
      return put_integer(at, from_bits<int32_t>(bits));
    case tracer::PayloadType::uint32:
      return put_integer(at, from_bits<uint32_t>(bits));
    case tracer::PayloadType::float64:
      return put_real(at, from_bits<double>(bits));
    case tracer::PayloadType::float32:
      return put_real(at, from_bits<float>(bits));
    case tracer::PayloadType::none:
    case tracer::PayloadType::uint64:
    case tracer::PayloadType::opaque:
      break;
  }
  return put_integer(at, bits);
}

class ChromeWriter {
 public:
  ChromeWriter(const TraceContent& content, const WriteBytes& write) : content_(content), out_(write) {}

  void run() {
    prepare();
    write_head();
    for (size_t event = 0; event < content_.events.count; ++event) write_event(event);
    for (size_t flow = 0; flow < content_.flows.count; ++flow) write_launch_flow(flow);
    for (const TraceCounter& counter : content_.counters) write_counter(counter);
    out_.append("\n]}\n");
    out_.flush();
  }

 private:
  void prepare() {
    strings_.reserve(content_.strings.size());
    for (const auto text : content_.strings) strings_.push_back(quoted(text));
    // Everything of an event but its numbers, once per track and string.
    places_.reserve(content_.tracks.size());
    for (const TraceTrack& track : content_.tracks)
      places_.push_back(place(pid_of(track.process), track.tid));
    argument_bytes_ = 4 * kNumberBytes;
    if (content_.launches.count > 0) argument_bytes_ += kLaunchBytes;
    for (const auto& text : content_.texts) argument_bytes_ += string_of(text.name).size() + kNumberBytes;
    for (const auto& count : content_.counts) argument_bytes_ += string_of(count.name).size() + kNumberBytes;
    if (content_.payload_name >= 0) argument_bytes_ += string_of(content_.payload_name).size();
    if (content_.payload_bytes_name >= 0) argument_bytes_ += string_of(content_.payload_bytes_name).size();
  }

  int32_t pid_of(int32_t process) const { return content_.processes[static_cast<size_t>(process)].pid; }
  const std::string& string_of(int32_t index) const { return strings_[static_cast<size_t>(index)]; }

  void write_head() {
    out_.append("{\"displayTimeUnit\":\"ns\",\"baseTimeNanoseconds\":" +
                std::to_string(content_.base_unix_ns));
    for (const auto& [name, json] : content_.members) {
      out_.append("," + quoted(name) + ":");
      out_.append(json);
    }
    out_.append(",\"otherData\":{" + about() + "},\n\"traceEvents\":[");
    for (size_t i = 0; i < content_.processes.size(); ++i) {
      const TraceProcess& process = content_.processes[i];
      name_it(place(process.pid, process.pid), "process_name", "name", quoted(process.name));
      name_it(place(process.pid, process.pid), "process_sort_index", "sort_index", std::to_string(i));
    }
    for (size_t i = 0; i < content_.tracks.size(); ++i) {
      const TraceTrack& track = content_.tracks[i];
      name_it(places_[i], "thread_name", "name", quoted(track.name));
      name_it(places_[i], "thread_sort_index", "sort_index", std::to_string(track.rank));
    }
    if (content_.processes.empty()) return;
    const int32_t pid = content_.processes[0].pid;
    next();
    out_.append("{\"ph\":\"i\",\"s\":\"p\"," + place(pid, pid) +
                ",\"ts\":0.000,\"name\":\"profkit capture\"");
    out_.append(",\"cat\":\"profkit\",\"args\":{" + about() + "}}");
  }

  std::string about() const {
    std::string members;
    for (const auto& [name, value] : content_.about) {
      members += (members.empty() ? "" : ",") + quoted(name) + ":" + quoted(value);
    }
    return members;
  }

  void name_it(const std::string& where, const char* what, const char* key, const std::string& value) {
    next();
    out_.append("{\"ph\":\"M\"," + where + ",\"name\":\"" + what + "\",\"args\":{\"" + key + "\":" + value +
                "}}");
  }

  void next() {
    out_.append(is_first_ ? "\n" : ",\n");
    is_first_ = false;
  }

  void write_event(size_t event) {
    const TraceEvents& events = content_.events;
    const std::string& where = places_[static_cast<size_t>(events.track[event])];
    const std::string& name = string_of(events.name[event]);
    const int32_t category = events.category[event];
    const size_t category_bytes = category < 0 ? 0 : string_of(category).size();
    char* at =
        out_.room(where.size() + name.size() + category_bytes + text_bytes(event) + argument_bytes_ + 96);
    at = put(at, is_first_ ? "\n" : ",\n");
    is_first_ = false;
    const bool is_slice = events.shape[event] == static_cast<uint8_t>(EventShape::slice);
    at = put(at, is_slice ? "{\"ph\":\"X\"," : "{\"ph\":\"i\",\"s\":\"t\",");
    at = put(at, where);
    at = put_microseconds(put(at, ",\"ts\":"), events.start_ns[event]);
    if (is_slice) at = put_microseconds(put(at, ",\"dur\":"), duration_of(event));
    at = put(put(at, ",\"name\":"), name);
    if (category >= 0) at = put(put(at, ",\"cat\":"), string_of(category));
    at = put_arguments(at, event);
    *at++ = '}';
    out_.commit(at);
    if (events.flow != nullptr && events.flow[event] != 0) write_flow(event);
  }

  int64_t duration_of(size_t event) const {
    const auto start = static_cast<uint64_t>(content_.events.start_ns[event]);
    return static_cast<int64_t>(static_cast<uint64_t>(content_.events.end_ns[event]) - start);
  }

  size_t text_bytes(size_t event) const {
    size_t bytes = 0;
    for (const auto& text : content_.texts) {
      if (text.values[event] >= 0) bytes += string_of(text.values[event]).size();
    }
    return bytes;
  }

  char* put_arguments(char* at, size_t event) const {
    const char* separator = ",\"args\":{";
    const auto key = [&](int32_t name) {
      at = put(put(put(at, separator), string_of(name)), ":");
      separator = ",";
    };
    const TraceEvents& events = content_.events;
    if (events.payload_type != nullptr && events.payload_type[event] != 0) {
      const auto type = static_cast<tracer::PayloadType>(events.payload_type[event]);
      key(type == tracer::PayloadType::opaque ? content_.payload_bytes_name : content_.payload_name);
      at = put_payload(at, type, events.payload[event]);
    }
    for (const auto& text : content_.texts) {
      if (text.values[event] < 0) continue;
      key(text.name);
      at = put(at, string_of(text.values[event]));
    }
    for (const auto& count : content_.counts) {
      if (count.values[event] < 0) continue;
      key(count.name);
      at = put_integer(at, count.values[event]);
    }
    if (events.launch != nullptr && events.launch[event] >= 0) {
      char* const before = at;
      at = put_launch(at, separator, static_cast<size_t>(events.launch[event]));
      if (at != before) separator = ",";
    }
    if (*separator == ',' && separator[1] == '\0') *at++ = '}';
    return at;
  }

  // In the words of torch.profiler's traces, which tools look for. What is not known is left out.
  char* put_launch(char* at, std::string_view separator, size_t row) const {
    const TraceLaunches& launches = content_.launches;
    const auto key = [&](std::string_view name) {
      at = put(put(put(put(at, separator), "\""), name), "\":");
      separator = ",";
    };
    const auto triple = [&](std::string_view name, const int32_t* const(&axes)[3]) {
      if (axes[0][row] < 0) return;
      key(name);
      for (size_t axis = 0; axis < 3; ++axis) {
        *at++ = axis == 0 ? '[' : ',';
        at = put_number(at, axes[axis][row]);
      }
      *at++ = ']';
    };
    const auto number = [&](std::string_view name, int64_t value) {
      if (value < 0) return;
      key(name);
      at = put_number(at, value);
    };
    triple("grid", launches.grid);
    triple("block", launches.block);
    number("registers per thread", launches.registers[row]);
    number("shared memory", launches.shared_bytes(row));
    return at;
  }

  // From a call to the GPU work that it launched. Each arrow has its own id: one launch of a graph has many.
  // It must not end before it begins: where the GPU's clock is a little ahead, it ends later within its
  // slice; work that had ended by then has no arrow.
  void write_launch_flow(size_t flow) {
    const TraceEvents& events = content_.events;
    const int32_t from = content_.flows.from[flow], to = content_.flows.to[flow];
    const int64_t leaves = events.start_ns[from], arrives = std::max(leaves, events.start_ns[to]);
    if (arrives > events.end_ns[to]) return;
    const auto end = [&](std::string_view phase, int32_t row, int64_t time_ns) {
      const std::string& where = places_[static_cast<size_t>(events.track[row])];
      char* at = out_.room(where.size() + 128);
      at = put_number(put(put(put(at, phase), where), ",\"id\":"), flow + 1);
      at = put_microseconds(put(at, ",\"ts\":"), time_ns);
      out_.commit(put(at, ",\"name\":\"ac2g\",\"cat\":\"ac2g\"}"));
    };
    end(",\n{\"ph\":\"s\",", from, leaves);
    end(",\n{\"ph\":\"f\",\"bp\":\"e\",", to, arrives);
  }

  // Bound by the viewers to the slice that encloses the time on this thread.
  void write_flow(size_t event) {
    const int32_t flow = content_.events.flow[event];
    const std::string& where = places_[static_cast<size_t>(content_.events.track[event])];
    char* at = out_.room(where.size() + 128);
    at = put(at, flow > 0 ? ",\n{\"ph\":\"s\"," : ",\n{\"ph\":\"f\",\"bp\":\"e\",");
    at = put_number(put(put(at, where), ",\"id\":"), flow > 0 ? int64_t{flow} : -int64_t{flow});
    at = put_microseconds(put(at, ",\"ts\":"), content_.events.start_ns[event]);
    out_.commit(put(at, ",\"name\":\"memory\",\"cat\":\"memory\"}"));
  }

  void write_counter(const TraceCounter& counter) {
    const std::string head = ",\n{\"ph\":\"C\",\"pid\":" + std::to_string(pid_of(counter.process)) +
                             ",\"name\":" + quoted(counter.name) + ",\"ts\":";
    const std::string middle = ",\"args\":{" + quoted(counter.unit) + ":";
    for (size_t i = 0; i < counter.count; ++i) {
      char* at = out_.room(head.size() + middle.size() + 2 * kNumberBytes);
      at = put_microseconds(put(at, head), counter.time_ns[i]);
      at = put_number(put(at, middle), counter.value[i]);
      out_.commit(put(at, "}}"));
    }
  }

  const TraceContent& content_;
  OutputBuffer out_;
  std::vector<std::string> strings_, places_;
  size_t argument_bytes_ = 0;
  bool is_first_ = true;
};

}  // namespace

void write_chrome(const TraceContent& content, const WriteBytes& write) {
  ChromeWriter(content, write).run();
}

}  // namespace profkit::captures
