// Render stages: kernels with their launch geometry, copies and sets with their bytes.
#include "captures/export/perfetto_stages.h"

#include <algorithm>
#include <string>

namespace profkit::captures {
namespace {

// Field numbers, from Perfetto's public .proto files.
namespace stage {
constexpr uint32_t id = 1, duration = 2, context = 5, extra = 6, submission = 10, gpu = 11, queue = 13,
                   name = 14, kernel = 19, launch = 21;
}
namespace launch {
constexpr uint32_t grid = 1, workgroup = 2, argument = 3;
}
namespace interned {
constexpr uint32_t contexts = 23, specifications = 24, kernels = 1000, argument_names = 1001;
}
constexpr uint64_t kOther = 0, kCompute = 2;  // categories of a specification

std::string text_of(const int32_t* const (&axes)[3], size_t row) {
  return "[" + std::to_string(axes[0][row]) + ", " + std::to_string(axes[1][row]) + ", " +
         std::to_string(axes[2][row]) + "]";
}

}  // namespace

RenderStages::RenderStages(const TraceContent& content)
    : content_(content),
      rows_(content.queues.size()),
      stage_names_(content.strings.size()),
      kernels_(content.strings.size()) {
  for (size_t row = 0; row < content.events.count; ++row) {
    const int32_t queue = content.tracks[static_cast<size_t>(content.events.track[row])].queue;
    if (queue >= 0) rows_[static_cast<size_t>(queue)].push_back(row);
  }
  const int64_t* const start_ns = content.events.start_ns;
  for (auto& rows : rows_) {
    std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) { return start_ns[a] < start_ns[b]; });
  }
}

void RenderStages::start_sequence() {
  stage_names_.start_sequence();
  kernels_.start_sequence();
  has_context_ = has_queue_ = false;
  named_numbers_ = 0;
}

std::string_view RenderStages::stage(size_t queue, size_t row, ProtoMessage& interned) {
  const TraceEvents& events = content_.events;
  const TraceQueue& on = content_.queues[queue];
  const int32_t launched = events.launch == nullptr ? -1 : events.launch[row];
  event_.clear();
  event_.number<stage::id>(id_of(row));
  event_.number<stage::duration>(static_cast<uint64_t>(events.end_ns[row]) -
                                 static_cast<uint64_t>(events.start_ns[row]));
  event_.number<stage::context>(intern_context(on.process, interned));
  // Tables of readers keep this number and not the id: SQL finds a launch's work by it.
  event_.number<stage::submission>(static_cast<uint32_t>(id_of(row)));
  event_.number<stage::gpu>(static_cast<uint64_t>(on.gpu));
  event_.number<stage::queue>(intern_queue(queue, interned));
  event_.number<stage::name>(intern_stage(row, interned));
  if (launched >= 0) {
    event_.number<stage::kernel>(intern_kernel(events.name[row], interned));
    add_launch(static_cast<size_t>(launched), interned);
  }
  for (const auto& text : content_.texts) {
    if (text.values[row] >= 0) add_extra(string_of(text.name), string_of(text.values[row]));
  }
  for (const auto& count : content_.counts) {
    if (count.values[row] >= 0) add_extra(string_of(count.name), std::to_string(count.values[row]));
  }
  return event_.view();
}

// Queues have the same numbers in every sequence: the viewer identifies them by number.
uint64_t RenderStages::intern_queue(size_t queue, ProtoMessage& interned) {
  if (!has_queue_) {
    part_.clear();
    part_.number<1>(queue + 1);
    part_.bytes<2>(content_.queues[queue].name);
    interned.bytes<interned::specifications>(part_.view());
    has_queue_ = true;
  }
  return queue + 1;
}

uint64_t RenderStages::intern_context(int32_t process, ProtoMessage& interned) {
  const uint64_t id = static_cast<uint64_t>(process) + 1;
  if (!has_context_) {
    part_.clear();
    part_.number<1>(id);
    part_.number<2>(static_cast<uint64_t>(content_.processes[static_cast<size_t>(process)].pid));
    part_.number<3>(kCuda);
    interned.bytes<interned::contexts>(part_.view());
    has_context_ = true;
  }
  return id;
}

// Stages share their numbers with queues. The description has the whole name.
uint64_t RenderStages::intern_stage(size_t row, ProtoMessage& interned) {
  const int32_t name = content_.events.name[row];
  const auto [id, is_new] = stage_names_.find(name);
  const uint64_t number = content_.queues.size() + id;
  if (is_new) {
    const int32_t label = content_.labels == nullptr ? -1 : content_.labels[name];
    const bool is_kernel = content_.events.launch != nullptr && content_.events.launch[row] >= 0;
    part_.clear();
    part_.number<1>(number);
    part_.bytes<2>(string_of(label < 0 ? name : label));
    if (label >= 0) part_.bytes<3>(string_of(name));
    part_.number<4>(is_kernel ? kCompute : kOther);
    interned.bytes<interned::specifications>(part_.view());
  }
  return number;
}

uint64_t RenderStages::intern_kernel(int32_t name, ProtoMessage& interned) {
  const auto [id, is_new] = kernels_.find(name);
  if (is_new) {
    part_.clear();
    part_.number<1>(id);
    part_.bytes<3>(string_of(name));  // demangled
    interned.bytes<interned::kernels>(part_.view());
  }
  return id;
}

void RenderStages::add_launch(size_t row, ProtoMessage& interned) {
  const TraceLaunches& launches = content_.launches;
  launch_.clear();
  if (add_dimensions(launches.grid, row)) launch_.bytes<launch::grid>(part_.view());
  if (add_dimensions(launches.block, row)) launch_.bytes<launch::workgroup>(part_.view());
  add_number<1>("registers_per_thread", launches.registers[row], interned);
  add_number<2>("shared_mem_static", launches.static_shared_bytes[row], interned);
  add_number<3>("shared_mem_dynamic", launches.dynamic_shared_bytes[row], interned);
  event_.bytes<stage::launch>(launch_.view());
  add_launch_texts(row);
}

// The same for readers that do not know launches; names as in Chrome traces.
void RenderStages::add_launch_texts(size_t row) {
  const TraceLaunches& launches = content_.launches;
  if (launches.grid[0][row] >= 0) add_extra("grid", text_of(launches.grid, row));
  if (launches.block[0][row] >= 0) add_extra("block", text_of(launches.block, row));
  if (launches.registers[row] >= 0)
    add_extra("registers per thread", std::to_string(launches.registers[row]));
  const int64_t shared = launches.shared_bytes(row);
  if (shared >= 0) add_extra("shared memory", std::to_string(shared));
}

// Into `part_`; false where they are not known.
bool RenderStages::add_dimensions(const int32_t* const (&axes)[3], size_t row) {
  part_.clear();
  if (axes[0][row] < 0) return false;
  part_.number<1>(static_cast<uint64_t>(axes[0][row]));
  if (axes[1][row] >= 0) part_.number<2>(static_cast<uint64_t>(axes[1][row]));
  if (axes[2][row] >= 0) part_.number<3>(static_cast<uint64_t>(axes[2][row]));
  return true;
}

template <uint32_t name_id>
void RenderStages::add_number(std::string_view name, int32_t value, ProtoMessage& interned) {
  if (value < 0) return;
  if ((named_numbers_ & 1u << name_id) == 0) {
    entry_.clear();
    entry_.number<1>(name_id);
    entry_.bytes<2>(name);
    interned.bytes<interned::argument_names>(entry_.view());
    named_numbers_ |= 1u << name_id;
  }
  part_.clear();
  part_.number<1>(name_id);
  part_.number<4>(static_cast<uint64_t>(value));
  launch_.bytes<launch::argument>(part_.view());
}

void RenderStages::add_extra(std::string_view name, std::string_view value) {
  part_.clear();
  part_.bytes<1>(name);
  part_.bytes<2>(value);
  event_.bytes<stage::extra>(part_.view());
}

}  // namespace profkit::captures
