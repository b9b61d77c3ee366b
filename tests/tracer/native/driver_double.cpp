// A libcuda.so.1 for machines without a GPU. As the real one it loads what CUDA_INJECTION64_PATH names when
// it is first used; what it answers is in the environment.
//   PROFKIT_DOUBLE_VERSION  as cuDriverGetVersion gives it (default 13000)
//   PROFKIT_DOUBLE_INIT     what cuInit returns (default 0); "crash" and "hang" do so
//   PROFKIT_DOUBLE_DEVICES  name:capability:bytes, with ; between devices (default none)
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kInvalidValue = 1, kInvalidDevice = 101;
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76;

std::string setting(const char* name, const char* usual) {
  const char* const value = std::getenv(name);
  return value == nullptr ? usual : value;
}

struct Device {
  std::string name;
  int capability;
  size_t bytes;
};

std::vector<Device> devices() {
  std::vector<Device> found;
  std::istringstream list(setting("PROFKIT_DOUBLE_DEVICES", ""));
  for (std::string text; std::getline(list, text, ';');) {
    std::istringstream parts(text);
    std::string name, capability, bytes;
    std::getline(parts, name, ':');
    std::getline(parts, capability, ':');
    std::getline(parts, bytes, ':');
    found.push_back({name, std::stoi(capability), std::stoul(bytes)});
  }
  return found;
}

bool is_initialised = false;

struct Error {
  int code;
  const char *name, *text;
};
constexpr Error kErrors[] = {
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
     "system has unsupported display driver / cuda driver combination"},
};

int tell(int code, const char** text, const char* Error::* what) {
  *text = nullptr;
  for (const Error& error : kErrors) {
    if (error.code == code) *text = error.*what;
  }
  return *text == nullptr ? kInvalidValue : 0;
}

void load_tool() {
  const char* const tool = std::getenv("CUDA_INJECTION64_PATH");
  void* const library = tool == nullptr ? nullptr : dlopen(tool, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto initialize = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

int cuDriverGetVersion(int* version) {
  *version = std::stoi(setting("PROFKIT_DOUBLE_VERSION", "13000"));
  return 0;
}

int cuInit(unsigned) {
  const std::string answer = setting("PROFKIT_DOUBLE_INIT", "0");
  if (answer == "crash") std::abort();
  if (answer == "hang") pause();
  if (is_initialised) return 0;
  const int code = std::stoi(answer);
  is_initialised = code == 0;
  if (is_initialised) load_tool();
  return code;
}

int cuCtxGetCurrent(void** context) {
  *context = nullptr;
  return is_initialised ? 0 : 3;  // CUDA_ERROR_NOT_INITIALIZED
}

int cuDeviceGetCount(int* count) {
  if (!is_initialised) return 3;
  *count = static_cast<int>(devices().size());
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices().size()) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<size_t>(length), "%s",
                devices().at(static_cast<size_t>(device)).name.c_str());
  return 0;
}

int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = devices().at(static_cast<size_t>(device)).bytes;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = devices().at(static_cast<size_t>(device)).capability;
  switch (attribute) {
    case kMultiprocessors:
      *value = 108;
      return 0;
    case kMajor:
      *value = capability / 10;
      return 0;
    case kMinor:
      *value = capability % 10;
      return 0;
    default:
      return kInvalidValue;
  }
}

int cuGetErrorString(int code, const char** text) { return tell(code, text, &Error::text); }

int cuGetErrorName(int code, const char** text) { return tell(code, text, &Error::name); }
}
