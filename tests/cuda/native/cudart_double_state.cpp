#include "cudart_double_state.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

namespace cudart_double {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv((std::string("PROFKIT_CUDA_DOUBLE_") + name).c_str());
  return value == nullptr ? "" : value;
}

template <class Number>
void read_number(const char* name, Number& number) {
  const std::string text = variable(name);
  if (!text.empty()) number = static_cast<Number>(std::stoull(text));
}

// Those before the first that there is not, as the runtime does it.
std::vector<int> visible_devices(int devices) {
  const char* const given = std::getenv("CUDA_VISIBLE_DEVICES");
  std::vector<int> found;
  if (given == nullptr) {
    for (int device = 0; device < devices; ++device) found.push_back(device);
    return found;
  }
  std::istringstream words(given);
  for (int device = 0; words >> device && device >= 0 && device < devices; words.ignore(1, ',')) {
    found.push_back(device);
  }
  return found;
}

Settings read_settings() {
  Settings settings;
  read_number("DRIVER", settings.driver);
  read_number("DEVICES", settings.devices);
  read_number("CAPABILITY", settings.capability);
  read_number("MEMORY", settings.memory_bytes);
  read_number("KHZ", settings.khz);
  settings.visible = visible_devices(settings.devices);
  settings.log = variable("LOG");
  settings.lost = variable("LOST");
  settings.is_lost_before = !settings.lost.empty() && std::ifstream(settings.lost).good();
  const std::string fail = variable("FAIL");
  if (fail.empty()) return settings;
  const size_t at = fail.find('@'), equals = fail.find('=');
  if (at == std::string::npos || equals == std::string::npos || equals < at) {
    std::fprintf(stderr, "PROFKIT_CUDA_DOUBLE_FAIL=%s: expected what@n=code\n", fail.c_str());
    std::abort();
  }
  settings.failing = fail.substr(0, at);
  settings.failing_at = std::stoi(fail.substr(at + 1));
  settings.failing_code = static_cast<cudaError_t>(std::stoi(fail.substr(equals + 1)));
  return settings;
}

struct ErrorWords {
  const char *name, *text;
};

// In the runtime's own words.
const std::map<cudaError_t, ErrorWords>& known_errors() {
  static const std::map<cudaError_t, ErrorWords> words{
      {cudaSuccess, {"cudaSuccess", "no error"}},
      {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
      {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
      {cudaErrorInvalidConfiguration, {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
      {cudaErrorInsufficientDriver,
       {"cudaErrorInsufficientDriver", "CUDA driver version is insufficient for CUDA runtime version"}},
      {cudaErrorDevicesUnavailable,
       {"cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"}},
      {cudaErrorInvalidDeviceFunction, {"cudaErrorInvalidDeviceFunction", "invalid device function"}},
      {cudaErrorNoDevice, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
      {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
      {cudaErrorNoKernelImageForDevice,
       {"cudaErrorNoKernelImageForDevice", "no kernel image is available for execution on the device"}},
      {cudaErrorECCUncorrectable, {"cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"}},
      {cudaErrorUnsupportedPtxVersion,
       {"cudaErrorUnsupportedPtxVersion", "the provided PTX was compiled with an unsupported toolchain."}},
      {cudaErrorNotReady, {"cudaErrorNotReady", "device not ready"}},
      {cudaErrorIllegalAddress, {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
      {cudaErrorLaunchOutOfResources,
       {"cudaErrorLaunchOutOfResources", "too many resources requested for launch"}},
      {cudaErrorLaunchTimeout, {"cudaErrorLaunchTimeout", "the launch timed out and was terminated"}},
      {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
      {cudaErrorUnknown, {"cudaErrorUnknown", "unknown error"}},
  };
  return words;
}

}  // namespace

const Settings& settings() {
  static const Settings settings = read_settings();
  return settings;
}

cudaError_t Errors::returned(cudaError_t code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sticky_ != cudaSuccess) code = sticky_;
  if (code != cudaSuccess) last_ = code;
  return code;
}

void Errors::stick(cudaError_t code) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sticky_ == cudaSuccess) sticky_ = code;
}

cudaError_t Errors::sticky() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return sticky_;
}

cudaError_t Errors::take_last() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const cudaError_t code = sticky_ != cudaSuccess ? sticky_ : last_;
  last_ = cudaSuccess;
  return code;
}

Errors& errors() {
  static Errors errors;
  return errors;
}

cudaError_t absence() {
  // A runtime runs on drivers of its own major version and later.
  if (settings().driver / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
  return settings().visible.empty() || settings().is_lost_before ? cudaErrorNoDevice : cudaSuccess;
}

cudaError_t failure_of(const std::string& what) {
  static std::atomic<int> count{0};
  if (settings().failing != what) return cudaSuccess;
  if (++count != settings().failing_at) return cudaSuccess;
  if (!settings().lost.empty()) std::ofstream(settings().lost) << what << '\n';
  return settings().failing_code;
}

const char* error_name(cudaError_t code) {
  const auto found = known_errors().find(code);
  return found == known_errors().end() ? "unrecognized error code" : found->second.name;
}

const char* error_text(cudaError_t code) {
  const auto found = known_errors().find(code);
  return found == known_errors().end() ? "unrecognized error code" : found->second.text;
}

}  // namespace cudart_double
