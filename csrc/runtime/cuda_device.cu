#include "runtime/cuda_device.h"

#include <cuda_runtime.h>

#include <cstdio>

#include "kernels/cuda/launch.cuh"

namespace profkit {
namespace {

CudaErrorKind kind_of(cudaError_t code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return CudaErrorKind::out_of_memory;
    case cudaErrorInsufficientDriver:
    case cudaErrorNoDevice:
    case cudaErrorInvalidDevice:
    case cudaErrorInitializationError:
    case cudaErrorSystemNotReady:
    case cudaErrorSystemDriverMismatch:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorStubLibrary:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilationDisabled:
      return CudaErrorKind::unavailable;
    default:
      return CudaErrorKind::failed;
  }
}

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// What to do about it, where that is known.
std::string advice(cudaError_t code) {
  const CudaVersions versions = cuda_versions();
  if (code == cudaErrorInsufficientDriver && versions.driver == 0) {
    return "; there is no CUDA driver here";
  }
  if (code == cudaErrorInsufficientDriver) {
    return "; the driver is for CUDA " + version_text(versions.driver) + ", profkit was built with " +
           version_text(versions.runtime) + ": update the driver, or build profkit with an older CUDA";
  }
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorUnsupportedPtxVersion) {
    return "; profkit was compiled for " PROFKIT_CUDA_ARCHITECTURES_TEXT
           ": build it for this device (-DPROFKIT_CUDA_ARCHITECTURES=native)";
  }
  return {};
}

std::string pci_text(const cudaDeviceProp& properties) {
  char text[32];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID),
                static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
  return text;
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "reading a device attribute");
  return value;
}

CudaDevice launch_facts(int device) {
  CudaDevice facts;
  facts.capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                     attribute(cudaDevAttrComputeCapabilityMinor, device);
  facts.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  facts.shared_bytes_per_block =
      static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  facts.l2_bytes = static_cast<size_t>(attribute(cudaDevAttrL2CacheSize, device));
  return facts;
}

}  // namespace

void check_cuda(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // clears an error that is not sticky, so that the next call does not report it
  throw CudaError(kind_of(code), std::string(doing) + ": " + cuda_error_text(code) + advice(code));
}

std::string cuda_error_text(int code) {
  const auto error = static_cast<cudaError_t>(code);
  return std::string(cudaGetErrorString(error)) + " (" + cudaGetErrorName(error) + ")";
}

CudaVersions cuda_versions() {
  CudaVersions versions;
  cudaDriverGetVersion(&versions.driver);
  cudaRuntimeGetVersion(&versions.runtime);
  return versions;
}

std::vector<DeviceFacts> cuda_devices() {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting devices");
  std::vector<DeviceFacts> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    check_cuda(cudaGetDeviceProperties(&properties, i), "reading device properties");
    DeviceFacts facts;
    facts.index = i;
    facts.name = properties.name;
    facts.pci_bus_id = pci_text(properties);
    facts.launch = launch_facts(i);
    facts.memory_bytes = properties.totalGlobalMem;
    facts.clock_khz = attribute(cudaDevAttrClockRate, i);
    facts.memory_clock_khz = attribute(cudaDevAttrMemoryClockRate, i);
    facts.memory_bus_bits = attribute(cudaDevAttrGlobalMemoryBusWidth, i);
    facts.has_ecc = attribute(cudaDevAttrEccEnabled, i) != 0;
    devices.push_back(facts);
  }
  return devices;
}

CudaDevice current_cuda_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "reading the current device");
  return launch_facts(device);
}

void use_cuda_device(int index) { check_cuda(cudaSetDevice(index), "selecting a device"); }

DeviceMemory::DeviceMemory(size_t bytes) : bytes_(bytes) {
  // An empty array still has its own address.
  const std::string doing = "allocating " + std::to_string(bytes) + " bytes on the device";
  check_cuda(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), doing.c_str());
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

void DeviceMemory::upload(const void* host, size_t bytes) {
  check_cuda(cudaMemcpy(data_, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
}

void DeviceMemory::download(void* host, size_t bytes) const {
  check_cuda(cudaMemcpy(host, data_, bytes, cudaMemcpyDeviceToHost), "copying from the device");
}

void DeviceMemory::fill(int byte) { check_cuda(cudaMemset(data_, byte, bytes_), "filling device memory"); }

Stream::Stream() {
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  handle_ = stream;
}

Stream::~Stream() { cudaStreamDestroy(static_cast<cudaStream_t>(handle_)); }

void synchronize_stream(void* stream) {
  check_cuda(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)), "waiting for the device");
}

DeviceMemoryInfo device_memory_info() {
  DeviceMemoryInfo info{};
  check_cuda(cudaMemGetInfo(&info.free_bytes, &info.total_bytes), "reading the free memory");
  return info;
}

}  // namespace profkit
