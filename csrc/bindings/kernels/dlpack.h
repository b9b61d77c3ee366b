// The memory layout of DLPack capsules (ABI 1.x and the older unversioned form), as its specification gives
// it: field order, sizes and codes. pybind11 has none of this.
#pragma once

#include <cstdint>

namespace profkit::dlpack {

enum DeviceType : int32_t {
  kCpu = 1,
  kCuda = 2,
  kCudaHost = 3,
  kRocm = 10,
  kRocmHost = 11,
  kCudaManaged = 13
};
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
constexpr uint64_t kReadOnly = 1, kIsCopied = 2;  // flags of the versioned form
constexpr uint32_t kMajorVersion = 1;
constexpr const char* kPlainName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

struct Device {
  int32_t type, id;
};

struct ElementType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t dimensions;
  ElementType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null means C-contiguous
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* owner;
  void (*release)(Managed*);
};

struct ManagedVersioned {
  uint32_t major, minor;
  void* owner;
  void (*release)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};

}  // namespace profkit::dlpack
