// The CUDA runtime as profkit uses it: devices, memory, streams, and errors in the driver's own words.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cuda/registry.h"

namespace profkit {

// What kind of row an error makes.
enum class CudaErrorKind {
  unavailable,    // no driver, an old one, no device, no binary for the device
  out_of_memory,  // the device has not enough
  failed,         // a launch failed or the device was lost: this process cannot use it any longer
};

struct CudaError : std::runtime_error {
  CudaError(CudaErrorKind error_kind, const std::string& message)
      : std::runtime_error(message), kind(error_kind) {}
  CudaErrorKind kind;
};

struct CudaVersions {
  int driver = 0;  // 13000 for 13.0; 0: there is no driver
  int runtime = 0;
};

struct DeviceFacts {
  int index = 0;
  std::string name;
  std::string pci_bus_id;  // 0000:65:00.0: the name that NVML knows it by too, which counts in another order
  CudaDevice launch;
  size_t memory_bytes = 0;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  bool has_ecc = false;
};

CudaVersions cuda_versions();
// The runtime's words for an error code: "out of memory (cudaErrorMemoryAllocation)".
std::string cuda_error_text(int code);
// All devices; throws CudaError when the driver cannot be used.
std::vector<DeviceFacts> cuda_devices();
// The device that calls of this thread go to.
CudaDevice current_cuda_device();
void use_cuda_device(int index);

// Memory of the current device, freed with the object.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Both wait until the copy is done.
  void upload(const void* host, size_t bytes);
  void download(void* host, size_t bytes) const;
  void fill(int byte);

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

// A stream that waits for no other.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void* handle() const { return handle_; }

 private:
  void* handle_ = nullptr;
};

// Waits for everything on the stream; a kernel that failed shows here.
void synchronize_stream(void* stream);
struct DeviceMemoryInfo {
  size_t free_bytes, total_bytes;
};
DeviceMemoryInfo device_memory_info();

}  // namespace profkit
