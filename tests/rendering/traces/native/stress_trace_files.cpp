// Random trace contents through the layout and both serialisers, for the sanitizers: any bytes as text, any
// numbers as times, every argument. Prints how many bytes were written.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "captures/export/trace_content.h"
#include "captures/export/trace_layout.h"

using namespace profkit::captures;

namespace {

class RandomContent {
 public:
  explicit RandomContent(uint64_t seed) : chance_(seed) {
    make_strings();
    make_tracks();
    const size_t events = below(40);
    make_launches(below(9));
    make_events(events);
    make_arrows(events);
  }

  TraceContent content;
  std::vector<uint8_t> kind;
  std::vector<int32_t> thread, parent;

 private:
  uint64_t below(uint64_t end) { return chance_() % end; }
  int32_t string(int32_t least = 0) {
    return static_cast<int32_t>(below(texts_.size() + static_cast<size_t>(-least))) + least;
  }
  std::string_view text() { return texts_[below(texts_.size())]; }

  void make_strings() {
    texts_.resize(1 + below(6));
    for (std::string& made : texts_) {
      made.resize(below(100) == 0 ? below(3'000'000) : below(80));
      for (char& c : made) c = static_cast<char>(below(256));
    }
    content.strings.assign(texts_.begin(), texts_.end());
    content.payload_name = string();
    content.payload_bytes_name = string();
    content.base_unix_ns = static_cast<int64_t>(chance_());
    content.about.emplace_back(text(), text());
    content.members.emplace_back(text(), "[1]");
    for (size_t i = 0; i < texts_.size(); ++i) label_.push_back(string(-1));
    if (below(2) == 0) content.labels = label_.data();
  }

  void make_tracks() {
    content.processes = {{static_cast<int32_t>(below(1u << 31)), text(), {text(), text()}}};
    if (below(2) == 0) {
      content.processes.push_back({static_cast<int32_t>(below(1u << 31)), text(), {}, true});
      content.gpus.push_back({0, text(), text(), {{text(), text()}}});
      for (uint64_t i = below(3); i > 0; --i) {
        content.queues.push_back({static_cast<int32_t>(below(3)), 0, text()});
      }
    }
    const size_t tracks = 1 + below(4);
    for (size_t i = 0; i < tracks; ++i) {
      const int32_t beside = i > 0 && below(2) == 0 ? 0 : -1;
      const auto queue = static_cast<int32_t>(below(content.queues.size() + 1)) - 1;
      content.tracks.push_back({queue >= 0 ? 1 : 0, static_cast<int32_t>(below(1u << 31)), text(),
                                static_cast<int32_t>(i), beside, queue});
    }
  }

  void make_launches(size_t count) {
    content.launches.count = count;
    for (auto& column : launch_columns_) {
      for (size_t i = 0; i < count; ++i) {
        column.push_back(below(2) == 0 ? -1 : static_cast<int32_t>(chance_() & 0x7fffffff));
      }
    }
    TraceLaunches& made = content.launches;
    for (size_t axis = 0; axis < 3; ++axis) {
      made.grid[axis] = launch_columns_[axis].data();
      made.block[axis] = launch_columns_[3 + axis].data();
    }
    made.registers = launch_columns_[6].data();
    made.static_shared_bytes = launch_columns_[7].data();
    made.dynamic_shared_bytes = launch_columns_[8].data();
  }

  void make_arrows(size_t events) {
    for (size_t row = 0; row < events; ++row) {
      for (uint64_t i = below(3); i > 0; --i) {
        from_.push_back(static_cast<int32_t>(row));
        to_.push_back(static_cast<int32_t>(below(events)));
      }
    }
    content.flows = {from_.size(), from_.data(), to_.data()};
  }

  void make_events(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      // Half of the times are sound, the others whatever 64 bits hold.
      const bool is_sound = below(2) == 0;
      start_.push_back(is_sound ? static_cast<int64_t>(below(1000)) : static_cast<int64_t>(chance_()));
      end_.push_back(is_sound ? start_.back() + static_cast<int64_t>(below(99))
                              : static_cast<int64_t>(chance_()));
      shape_.push_back(static_cast<uint8_t>(below(2)));
      track_.push_back(static_cast<int32_t>(below(content.tracks.size())));
      depth_.push_back(static_cast<int32_t>(below(count)));
      name_.push_back(string());
      category_.push_back(string(-1));
      argument_.push_back(string(-1));
      payload_type_.push_back(static_cast<uint8_t>(below(9)));
      payload_.push_back(chance_() >> below(64));
      flow_.push_back(static_cast<int32_t>(chance_()));
      number_.push_back(static_cast<int64_t>(chance_()));
      launch_.push_back(static_cast<int32_t>(below(content.launches.count + 1)) - 1);
      kind.push_back(static_cast<uint8_t>(below(3)));
      thread.push_back(0);
      parent.push_back(static_cast<int32_t>(below(count + 1)) - 1);
    }
    const bool has_payload = below(2) == 0, has_flows = below(2) == 0;
    content.events = {count,
                      shape_.data(),
                      track_.data(),
                      depth_.data(),
                      start_.data(),
                      end_.data(),
                      name_.data(),
                      category_.data(),
                      has_payload ? payload_type_.data() : nullptr,
                      payload_.data(),
                      has_flows ? flow_.data() : nullptr,
                      below(2) == 0 ? launch_.data() : nullptr};
    for (uint64_t i = below(4); i > 0; --i) content.texts.push_back({string(), argument_.data()});
    for (uint64_t i = below(4); i > 0; --i) content.counts.push_back({string(), number_.data()});
    content.counters.push_back({0, text(), text(), count, start_.data(), number_.data()});
  }

  std::mt19937_64 chance_;
  std::vector<std::string> texts_;
  std::vector<uint8_t> shape_, payload_type_;
  std::vector<int32_t> track_, depth_, name_, category_, argument_, flow_, launch_, label_, from_, to_;
  std::vector<int32_t> launch_columns_[9];
  std::vector<int64_t> start_, end_, number_;
  std::vector<uint64_t> payload_;
};

}  // namespace

int main() {
  size_t written = 0;
  unsigned sum = 0;
  // Every byte is looked at: one that was never set would show.
  const WriteBytes look = [&](const char* bytes, size_t size) {
    for (size_t i = 0; i < size; ++i) sum += static_cast<unsigned char>(bytes[i]);
    written += size;
  };
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomContent made(seed);
    write_chrome(made.content, look);
    write_perfetto(made.content, look);
    const TraceEvents& events = made.content.events;
    lay_out({events.count, 1, made.kind.data(), made.thread.data(), events.start_ns, events.end_ns,
             made.parent.data()});
  }
  std::printf("%zu %u\n", written, sum);
}
