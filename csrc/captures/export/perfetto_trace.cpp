// TraceContent -> Perfetto's protobuf trace. Every track is a separate packet sequence: its track and clock
// are defaults, times are differences to the packet before, and strings are interned at their first use. That
// keeps a slice (begin and end packet) near 30 bytes.
#include <algorithm>
#include <string>

#include "captures/export/interning.h"
#include "captures/export/output_buffer.h"
#include "captures/export/perfetto_extensions.h"
#include "captures/export/perfetto_stages.h"
#include "captures/export/protobuf.h"
#include "captures/export/trace_content.h"
#include "tracer/file/format.h"

namespace profkit::captures {
namespace {

// Field numbers, from Perfetto's public .proto files.
namespace packet {
constexpr uint32_t timestamp = 8, sequence = 10, track_event = 11, interned = 12, flags = 13, clocks = 6,
                   render_stage = 53, defaults = 59, descriptor = 60, extensions = 72, gpu_info = 128;
constexpr uint64_t is_cleared = 1, needs_state = 2;
}  // namespace packet
namespace event {
constexpr uint32_t category = 3, annotation = 4, type = 9, name = 10, track = 11, plain_name = 23, value = 30,
                   flow = 47, ending_flow = 48, gpu_correlation = 3000, gpu_api = 3001;
constexpr uint64_t begin = 1, end = 2, instant = 3, counter = 4;
}  // namespace event
namespace annotation {
constexpr uint32_t name = 1, unsigned_value = 3, signed_value = 4, real_value = 5, text_value = 6,
                   plain_name = 10, text = 17;
}
namespace interned {
constexpr uint32_t categories = 1, event_names = 2, annotation_names = 3, texts = 29;
}
namespace clock {
constexpr uint64_t realtime = 1, boottime = 6, own = 64;  // from 64 on a clock belongs to its sequence
}

class PerfettoWriter {
 public:
  PerfettoWriter(const TraceContent& content, const WriteBytes& write)
      : content_(content),
        out_(write),
        names_(content.strings.size()),
        categories_(content.strings.size()),
        argument_names_(content.strings.size()),
        texts_(content.strings.size()),
        stages_(content) {}

  void run() {
    write_clocks();
    if (content_.flows.count > 0) write_extensions();
    describe_tracks();
    write_about();
    write_tracks();
    for (size_t queue = 0; queue < content_.queues.size(); ++queue) write_queue(queue);
    for (size_t i = 0; i < content_.counters.size(); ++i) write_counter(i);
    out_.flush();
  }

 private:
  // Track ids: processes, then tracks, then counters.
  uint64_t process_uuid(size_t process) const { return 1 + process; }
  uint64_t track_uuid(size_t track) const { return 1 + content_.processes.size() + track; }
  uint64_t counter_uuid(size_t counter) const { return track_uuid(content_.tracks.size()) + counter; }

  // --- Before the events, on sequence 1 ---

  void write_packet() {
    const std::string_view body = packet_.view();
    char* at = out_.room(body.size() + 16);
    *at++ = 0x0A;  // field 1 of Trace
    at = put_varint(at, body.size());
    std::memcpy(at, body.data(), body.size());
    out_.commit(at + body.size());
  }

  void add_clock(uint64_t id, uint64_t time, bool is_incremental) {
    part_.clear();
    part_.number<1>(id);
    part_.number<2>(time);
    if (is_incremental) part_.number<3>(1);
    nested_.bytes<1>(part_.view());
  }

  void write_clocks() {
    nested_.clear();
    add_clock(clock::boottime, 0, false);
    add_clock(clock::realtime, static_cast<uint64_t>(content_.base_unix_ns), false);
    packet_.clear();
    packet_.number<packet::sequence>(1);
    packet_.bytes<packet::clocks>(nested_.view());
    write_packet();
  }

  void write_extensions() {
    packet_.clear();
    packet_.number<packet::sequence>(1);
    packet_.bytes<packet::extensions>(describe_gpu_extensions());
    write_packet();
  }

  void write_descriptor() {
    packet_.clear();
    packet_.number<packet::sequence>(1);
    packet_.bytes<packet::descriptor>(nested_.view());
    write_packet();
  }

  void describe_tracks() {
    for (size_t i = 0; i < content_.processes.size(); ++i) {
      if (!content_.processes[i].is_gpu) describe_process(i);
    }
    for (size_t i = 0; i < content_.tracks.size(); ++i) {
      if (content_.tracks[i].queue < 0) describe_track(i);
    }
    if (!content_.gpus.empty()) describe_gpus();
    for (size_t i = 0; i < content_.counters.size(); ++i) {
      const TraceCounter& counter = content_.counters[i];
      part_.clear();
      if (counter.unit == "bytes") part_.number<3>(3);
      nested_.clear();
      nested_.number<1>(counter_uuid(i));
      nested_.bytes<2>(std::string(counter.name) + " " + std::string(counter.unit));
      nested_.number<5>(process_uuid(static_cast<size_t>(counter.process)));
      nested_.bytes<8>(part_.view());
      write_descriptor();
    }
  }

  void describe_process(size_t i) {
    const TraceProcess& process = content_.processes[i];
    part_.clear();
    part_.number<1>(static_cast<uint64_t>(process.pid));
    for (const auto word : process.command) part_.bytes<2>(word);
    part_.number<3>(i);  // sort index
    part_.bytes<6>(process.name);
    nested_.clear();
    nested_.number<1>(process_uuid(i));
    nested_.bytes<3>(part_.view());
    write_descriptor();
  }

  void describe_track(size_t i) {
    const TraceTrack& track = content_.tracks[i];
    nested_.clear();
    nested_.number<1>(track_uuid(i));
    if (track.thread < 0) {
      const TraceProcess& process = content_.processes[static_cast<size_t>(track.process)];
      part_.clear();
      part_.number<1>(static_cast<uint64_t>(process.pid));
      part_.number<2>(static_cast<uint64_t>(track.tid));
      part_.number<3>(static_cast<uint64_t>(track.rank));
      part_.bytes<5>(track.name);
      nested_.bytes<4>(part_.view());
      nested_.number<5>(process_uuid(static_cast<size_t>(track.process)));
      nested_.number<11>(3);  // lanes are in the order of their ranks
    } else {
      nested_.bytes<2>(track.name);
      nested_.number<5>(track_uuid(static_cast<size_t>(track.thread)));
      nested_.number<12>(static_cast<uint64_t>(track.rank));
    }
    write_descriptor();
  }

  // A GPU's id is its place in this list; ids that are not used have no name.
  void describe_gpus() {
    nested_.clear();
    for (const TraceGpu& gpu : content_.gpus) {
      part_.clear();
      part_.bytes<1>(gpu.name);
      part_.bytes<2>("NVIDIA");
      if (!gpu.architecture.empty()) part_.bytes<4>(gpu.architecture);
      for (const auto& [name, value] : gpu.about) {
        argument_.clear();
        argument_.bytes<1>(name);
        argument_.bytes<2>(value);
        part_.bytes<6>(argument_.view());
      }
      nested_.bytes<1>(part_.view());
    }
    packet_.clear();
    packet_.number<packet::sequence>(1);
    packet_.bytes<packet::gpu_info>(nested_.view());
    write_packet();
  }

  void write_about() {
    if (content_.processes.empty()) return;
    event_.clear();
    event_.number<event::type>(event::instant);
    event_.number<event::track>(process_uuid(0));
    event_.bytes<event::plain_name>("profkit capture");
    event_.bytes<22>("profkit");  // category
    for (const auto& [name, value] : content_.about) {
      part_.clear();
      part_.bytes<annotation::plain_name>(name);
      part_.bytes<annotation::text_value>(value);
      event_.bytes<event::annotation>(part_.view());
    }
    packet_.clear();
    packet_.number<packet::timestamp>(0);
    packet_.number<packet::sequence>(1);
    packet_.bytes<packet::track_event>(event_.view());
    write_packet();
  }

  // --- Sequences of events ---

  void start_sequence(uint64_t track) {
    ++sequence_;
    last_ns_ = 0;
    for (InternTable* table : {&names_, &categories_, &argument_names_, &texts_}) table->start_sequence();
    event_.clear();
    event_.number<event::track>(track);
    part_.clear();
    part_.number<58>(clock::own);
    part_.bytes<event::track>(event_.view());  // track_event_defaults happens to have the same number
    const std::string defaults(part_.view());
    nested_.clear();
    add_clock(clock::own, 0, true);
    add_clock(clock::boottime, 0, false);
    packet_.clear();
    packet_.number<packet::sequence>(sequence_);
    packet_.number<packet::flags>(packet::is_cleared);
    packet_.bytes<packet::defaults>(defaults);
    packet_.bytes<packet::clocks>(nested_.view());
    write_packet();
  }

  void write_event_at(int64_t time_ns) { write_body_at<packet::track_event>(time_ns, event_.view()); }

  // The packet of an event and of `interned_`, which is then empty again.
  template <uint32_t field>
  void write_body_at(int64_t time_ns, std::string_view body) {
    // Time never decreases within a track of an intact capture; in a damaged one it is clamped here.
    const int64_t now = std::max(time_ns, last_ns_);
    packet_.clear();
    packet_.number<packet::timestamp>(static_cast<uint64_t>(now) - static_cast<uint64_t>(last_ns_));
    last_ns_ = now;
    packet_.number<packet::sequence>(sequence_);
    if (!interned_.empty()) packet_.bytes<packet::interned>(interned_.view());
    packet_.bytes<field>(body);
    packet_.number<packet::flags>(packet::needs_state);
    write_packet();
    interned_.clear();
  }

  template <uint32_t field>
  uint64_t intern(InternTable& table, int32_t string) {
    const auto [id, is_new] = table.find(string);
    if (is_new) {
      part_.clear();
      part_.number<1>(id);
      part_.bytes<2>(content_.strings[static_cast<size_t>(string)]);
      interned_.bytes<field>(part_.view());
    }
    return id;
  }

  void write_tracks() {
    const std::vector<size_t> first = sort_by_track();
    for (size_t track = 0; track < content_.tracks.size(); ++track) {
      if (first[track] == first[track + 1] || content_.tracks[track].queue >= 0) continue;
      start_sequence(track_uuid(track));
      for (size_t i = first[track]; i < first[track + 1]; ++i) write_one(order_[i]);
      close_down_to(0);
    }
  }

  // Counting sort: events of a track together, their order kept. Gives where each track begins.
  std::vector<size_t> sort_by_track() {
    const TraceEvents& events = content_.events;
    std::vector<size_t> first(content_.tracks.size() + 1, 0);
    for (size_t i = 0; i < events.count; ++i) ++first[static_cast<size_t>(events.track[i]) + 1];
    for (size_t track = 0; track < content_.tracks.size(); ++track) first[track + 1] += first[track];
    std::vector<size_t> next(first);
    order_.resize(events.count);
    for (size_t i = 0; i < events.count; ++i) order_[next[static_cast<size_t>(events.track[i])]++] = i;
    return first;
  }

  void write_one(size_t row) {
    const TraceEvents& events = content_.events;
    const bool is_slice = events.shape[row] == static_cast<uint8_t>(EventShape::slice);
    close_down_to(static_cast<size_t>(events.depth[row]));
    event_.clear();
    event_.number<event::type>(is_slice ? event::begin : event::instant);
    event_.number<event::name>(intern<interned::event_names>(names_, events.name[row]));
    if (events.category[row] >= 0) {
      event_.number<event::category>(intern<interned::categories>(categories_, events.category[row]));
    }
    add_arguments(row);
    if (events.flow != nullptr && events.flow[row] > 0) {
      event_.fixed64<event::flow>(static_cast<uint64_t>(events.flow[row]));
    } else if (events.flow != nullptr && events.flow[row] < 0) {
      event_.fixed64<event::ending_flow>(static_cast<uint64_t>(-int64_t{events.flow[row]}));
    }
    if (content_.flows.count > 0) add_launched(row);
    write_event_at(events.start_ns[row]);
    if (is_slice) open_.push_back(events.end_ns[row]);
  }

  // What the event launched on a GPU, by the ids of the stages.
  void add_launched(size_t row) {
    const int32_t* const from = content_.flows.from;
    const int32_t* const end = from + content_.flows.count;
    const auto [first, last] = std::equal_range(from, end, static_cast<int32_t>(row));
    if (first == last) return;
    part_.clear();
    for (const int32_t* flow = first; flow < last; ++flow) {
      part_.number<1>(RenderStages::id_of(static_cast<size_t>(content_.flows.to[flow - from])));
    }
    event_.bytes<event::gpu_correlation>(part_.view());
    event_.number<event::gpu_api>(RenderStages::kCuda);
  }

  void write_queue(size_t queue) {
    if (stages_.events_of(queue).empty()) return;
    start_sequence(0);
    stages_.start_sequence();
    for (const size_t row : stages_.events_of(queue)) {
      const std::string_view body = stages_.stage(queue, row, interned_);
      write_body_at<packet::render_stage>(content_.events.start_ns[row], body);
    }
  }

  void close_down_to(size_t depth) {
    while (open_.size() > depth) {
      event_.clear();
      event_.number<event::type>(event::end);
      write_event_at(open_.back());
      open_.pop_back();
    }
  }

  void add_arguments(size_t row) {
    const TraceEvents& events = content_.events;
    if (events.payload_type != nullptr && events.payload_type[row] != 0) add_payload(row);
    for (const auto& text : content_.texts) {
      if (text.values[row] < 0) continue;
      const uint64_t value = intern<interned::texts>(texts_, text.values[row]);
      start_argument(text.name);
      argument_.number<annotation::text>(value);
      event_.bytes<event::annotation>(argument_.view());
    }
    for (const auto& count : content_.counts) {
      if (count.values[row] < 0) continue;
      start_argument(count.name);
      argument_.number<annotation::signed_value>(static_cast<uint64_t>(count.values[row]));
      event_.bytes<event::annotation>(argument_.view());
    }
  }

  void start_argument(int32_t name) {
    argument_.clear();
    argument_.number<annotation::name>(intern<interned::annotation_names>(argument_names_, name));
  }

  void add_payload(size_t row) {
    using tracer::PayloadType;
    const uint64_t bits = content_.events.payload[row];
    const auto type = static_cast<PayloadType>(content_.events.payload_type[row]);
    start_argument(type == PayloadType::opaque ? content_.payload_bytes_name : content_.payload_name);
    // Negative numbers are ten bytes long, as the format has it: int_value is not zigzag.
    switch (type) {
      case PayloadType::int64:
        argument_.number<annotation::signed_value>(bits);
        break;
      case PayloadType::int32:
        argument_.number<annotation::signed_value>(static_cast<uint64_t>(int64_t{from_bits<int32_t>(bits)}));
        break;
      case PayloadType::uint32:
        argument_.number<annotation::unsigned_value>(from_bits<uint32_t>(bits));
        break;
      case PayloadType::float64:
        argument_.real<annotation::real_value>(from_bits<double>(bits));
        break;
      case PayloadType::float32:
        argument_.real<annotation::real_value>(static_cast<double>(from_bits<float>(bits)));
        break;
      default:
        // Viewers keep integers signed; a larger one keeps its digits as a text, as in Chrome traces.
        if (bits >> 63 == 0) {
          argument_.number<annotation::unsigned_value>(bits);
        } else {
          argument_.bytes<annotation::text_value>(std::to_string(bits));
        }
    }
    event_.bytes<event::annotation>(argument_.view());
  }

  void write_counter(size_t i) {
    const TraceCounter& counter = content_.counters[i];
    start_sequence(counter_uuid(i));
    for (size_t at = 0; at < counter.count; ++at) {
      event_.clear();
      event_.number<event::type>(event::counter);
      event_.number<event::value>(static_cast<uint64_t>(counter.value[at]));
      write_event_at(counter.time_ns[at]);
    }
  }

  const TraceContent& content_;
  OutputBuffer out_;
  InternTable names_, categories_, argument_names_, texts_;
  ProtoMessage packet_, event_, interned_, nested_, part_, argument_;
  std::vector<size_t> order_;
  RenderStages stages_;
  std::vector<int64_t> open_;  // ends of the open slices of the current track
  uint64_t sequence_ = 1;
  int64_t last_ns_ = 0;
};

}  // namespace

void write_perfetto(const TraceContent& content, const WriteBytes& write) {
  PerfettoWriter(content, write).run();
}

}  // namespace profkit::captures
