// The part of NVTX's binary interface (version 3) that a tool meets: layouts and numbers, own declarations so
// that no CUDA header is needed to build. tests/tracer/test_nvtx_abi.py compares them with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace profkit::tracer::nvtx {

// --- Attaching: NVTX calls InitializeInjectionNvtx2(get_export_table); nonzero means attached ---
constexpr uint32_t kExportCallbacks = 1;

using Function = void (*)();

enum class Module : int32_t { core = 1, core2 = 5 };

struct ExportedCallbacks {
  size_t struct_bytes;
  // `table` becomes an array of `size` pointers to the function pointers that the program calls through.
  int (*module_table)(Module module, Function*** table, unsigned int* size);
};

using GetExportTable = const void* (*)(uint32_t id);

enum Core : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameCategoryA = 12,
  kNameCategoryW = 13,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
};

enum Core2 : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainResourceCreate = 6,
  kDomainResourceDestroy = 7,
  kDomainNameCategoryA = 8,
  kDomainNameCategoryW = 9,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
  kInitialize = 15,
};

// --- Events ---
enum Colour : int32_t { kColourArgb = 1 };
enum Message : int32_t { kMessageNone = 0, kMessageAscii = 1, kMessageWide = 2, kMessageRegistered = 3 };
enum Payload : int32_t {
  kPayloadNone = 0,
  kPayloadUint64 = 1,
  kPayloadInt64 = 2,
  kPayloadDouble = 3,
  kPayloadUint32 = 4,
  kPayloadInt32 = 5,
  kPayloadFloat = 6,
  kPayloadExtended =
      static_cast<int32_t>(0xDFBD0009u),  // `payload` points to `extended_count` ExtendedPayload
};

// Handles are ours: the program only hands them back.
struct DomainHandle;
struct StringHandle;
struct ResourceHandle;

struct EventAttributes {
  uint16_t version;
  uint16_t bytes;
  uint32_t category;
  int32_t colour_type;
  uint32_t colour;
  int32_t payload_type;
  int32_t extended_count;
  uint64_t payload;  // types of 32 bits use the first four bytes
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* wide;
    StringHandle* registered;
  } message;
};

struct ExtendedPayload {
  uint64_t schema;
  size_t bytes;  // SIZE_MAX: defined by the schema
  const void* data;
};

constexpr int kNoTracking = -2;  // the answer of a push or pop that keeps no levels

}  // namespace profkit::tracer::nvtx
