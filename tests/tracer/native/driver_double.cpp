// A libcuda.so.1 for tests: as the real one it loads what CUDA_INJECTION64_PATH names when it is first used.
#include <dlfcn.h>

#include <cstdlib>

#define EXPORT extern "C" __attribute__((visibility("default")))

static bool is_initialised = false;

EXPORT int cuInit(unsigned) {
  if (is_initialised) return 0;
  is_initialised = true;
  const char* const tool = std::getenv("CUDA_INJECTION64_PATH");
  void* const library = tool == nullptr ? nullptr : dlopen(tool, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 0;
  using Initialize = int (*)();
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjection"));
  if (initialize != nullptr) initialize();
  return 0;
}

EXPORT int cuDriverGetVersion(int* version) {
  const char* const asked = std::getenv("CUDA_DOUBLE_DRIVER");
  *version = asked == nullptr ? 13000 : std::atoi(asked);
  return 0;
}

EXPORT int cuCtxGetCurrent(void** context) {
  *context = nullptr;
  return is_initialised ? 0 : 3;  // CUDA_ERROR_NOT_INITIALIZED
}
