// Field numbers here are those of protobuf's descriptor.proto.
#include "captures/export/perfetto_extensions.h"

#include <cstdint>
#include <string_view>

#include "captures/export/protobuf.h"

namespace profkit::captures {
namespace {

constexpr uint64_t kOptional = 1, kRepeated = 3;
constexpr uint64_t kUint64 = 4, kMessage = 11, kEnum = 14;

struct Field {
  std::string_view name;
  uint64_t number, label, type;
  std::string_view type_name = {}, extendee = {};
};

std::string field_of(const Field& field) {
  ProtoMessage made;
  made.bytes<1>(field.name);
  if (!field.extendee.empty()) made.bytes<2>(field.extendee);
  made.number<3>(field.number);
  made.number<4>(field.label);
  made.number<5>(field.type);
  if (!field.type_name.empty()) made.bytes<6>(field.type_name);
  return std::string(made.view());
}

std::string correlation() {
  ProtoMessage made;
  made.bytes<1>("GpuCorrelation");
  made.bytes<2>(field_of({"render_stage_submission_event_ids", 1, kRepeated, kUint64}));
  return std::string(made.view());
}

std::string apis() {
  ProtoMessage made, value;
  value.bytes<1>("GPU_API_CUDA");
  value.number<2>(4);
  made.bytes<1>("GpuApi");
  made.bytes<2>(value.view());
  return std::string(made.view());
}

std::string track_event() {
  constexpr std::string_view extended = ".perfetto.protos.TrackEvent";
  ProtoMessage made;
  made.bytes<1>("GpuTrackEvent");
  made.bytes<6>(
      field_of({"gpu_correlation", 3000, kOptional, kMessage, ".perfetto.protos.GpuCorrelation", extended}));
  made.bytes<6>(field_of({"gpu_api", 3001, kOptional, kEnum, ".perfetto.protos.GpuApi", extended}));
  return std::string(made.view());
}

}  // namespace

std::string describe_gpu_extensions() {
  ProtoMessage file, files, descriptor;
  // By this name readers that have the file built in know that they need not read it.
  file.bytes<1>("protos/perfetto/trace/gpu/gpu_track_event.proto");
  file.bytes<2>("perfetto.protos");
  file.bytes<4>(correlation());
  file.bytes<4>(track_event());
  file.bytes<5>(apis());
  files.bytes<1>(file.view());
  descriptor.bytes<1>(files.view());
  return std::string(descriptor.view());
}

}  // namespace profkit::captures
