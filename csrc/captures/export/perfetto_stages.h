// What ran on GPUs as Perfetto's render stages: an event of a queue goes in, the body of its packet and what
// it interns come out. Perfetto gives overlapping stages of a queue separate lanes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "captures/export/interning.h"
#include "captures/export/protobuf.h"
#include "captures/export/trace_content.h"

namespace profkit::captures {

class RenderStages {
 public:
  static constexpr uint64_t kCuda = 4;  // the API's number in the format

  explicit RenderStages(const TraceContent& content);

  // By this id a launch names what it launched.
  static uint64_t id_of(size_t row) { return row + 1; }

  // Rows of the events of a queue, in order of start.
  const std::vector<size_t>& events_of(size_t queue) const { return rows_[queue]; }

  void start_sequence();

  // The body is valid until the next call.
  std::string_view stage(size_t queue, size_t row, ProtoMessage& interned);

 private:
  uint64_t intern_queue(size_t queue, ProtoMessage& interned);
  uint64_t intern_context(int32_t process, ProtoMessage& interned);
  uint64_t intern_stage(size_t row, ProtoMessage& interned);
  uint64_t intern_kernel(int32_t name, ProtoMessage& interned);
  void add_launch(size_t launch, ProtoMessage& interned);
  bool add_dimensions(const int32_t* const (&axes)[3], size_t launch);
  template <uint32_t name_id>
  void add_number(std::string_view name, int32_t value, ProtoMessage& interned);
  void add_launch_texts(size_t launch);
  void add_extra(std::string_view name, std::string_view value);

  std::string_view string_of(int32_t index) const { return content_.strings[static_cast<size_t>(index)]; }

  const TraceContent& content_;
  std::vector<std::vector<size_t>> rows_;  // of each queue
  InternTable stage_names_, kernels_;
  bool has_context_ = false, has_queue_ = false;
  uint32_t named_numbers_ = 0;  // a bit for each name that the sequence knows
  ProtoMessage event_, launch_, part_, entry_;
};

}  // namespace profkit::captures
