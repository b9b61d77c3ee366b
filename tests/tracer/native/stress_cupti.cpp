// Threads open ranges and launch kernels on the double of libcupti while captures start, flush and stop; for
// the sanitizers. Prints how many kernels and calls of the last capture must be in its file.
#include <dlfcn.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tracer/core/api.h"
#include "tracer/doors/open.h"

extern "C" int InitializeInjection();

// A sanitizer brings its own malloc: the allocation door stays out.
bool profkit::tracer::allocations_are_interposed() { return false; }

namespace {

constexpr int kThreads = 4, kTimes = 400, kCaptures = 3;

struct Gpu {
  uint64_t (*now)();
  uint32_t (*call)(uint32_t domain, uint32_t callback, uint32_t result, int is_lost);
  void (*kernel)(const char* name, uint32_t correlation, uint64_t start, uint64_t end, uint32_t stream,
                 uint64_t graph_node);
  void (*memory)(int is_release, uint64_t address, uint64_t bytes, uint32_t correlation, uint64_t pool);
  void (*synchronise)();
};

Gpu find_gpu() {
  void* const library = dlopen(std::getenv("PROFKIT_CUPTI_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(3);
  }
  return {reinterpret_cast<decltype(Gpu::now)>(dlsym(library, "double_now")),
          reinterpret_cast<decltype(Gpu::call)>(dlsym(library, "double_call")),
          reinterpret_cast<decltype(Gpu::kernel)>(dlsym(library, "double_kernel")),
          reinterpret_cast<decltype(Gpu::memory)>(dlsym(library, "double_memory")),
          reinterpret_cast<decltype(Gpu::synchronise)>(dlsym(library, "double_synchronise"))};
}

void work(const profkit_tracer_api& api, const Gpu& gpu, int number, int times) {
  const std::string outer_name = "thread " + std::to_string(number),
                    kernel = "kernel " + std::to_string(number);
  const uint32_t outer = api.label(outer_name.data(), outer_name.size(), nullptr, 0);
  const uint32_t inner = api.label("inner", 5, nullptr, 0);
  for (int i = 0; i < times; ++i) {
    const uint64_t first = api.begin(outer);
    const uint64_t second = i % 2 != 0 ? api.begin(inner) : 0;
    if (i % 3 == 0) api.end(first);  // out of order, when the inner one is open
    const uint32_t correlation = gpu.call(2, 211, 0, 0);
    const uint64_t start = gpu.now();
    gpu.kernel(kernel.c_str(), correlation, start, start + 100, static_cast<uint32_t>(number), 0);
    gpu.memory(i % 2, 4096u * static_cast<uint64_t>(number), 64, correlation, 0);
    if (i % 50 == 0) gpu.synchronise();
    api.end(second);
    if (i % 3 != 0) api.end(first);
  }
}

void check(const char* why) {
  if (why == nullptr) return;
  std::fprintf(stderr, "%s\n", why);
  std::exit(4);
}

}  // namespace

int main(int, char** arguments) {
  const profkit_tracer_api& api = *profkit_tracer(PROFKIT_TRACER_API_VERSION);
  const Gpu gpu = find_gpu();
  InitializeInjection();  // as the driver does before anything records
  std::atomic<bool> is_over{false};
  std::thread always([&] {  // records and launches across the captures' begins and ends
    while (!is_over.load()) {
      work(api, gpu, 9, 20);
      api.flush();  // also while another thread ends the capture
    }
  });
  for (int capture = 0; capture < kCaptures; ++capture) {
    const std::string path = std::string(arguments[1]) + "/" + std::to_string(capture) + ".profkit";
    check(api.start(path.c_str(), "flush_ms=5"));
    std::vector<std::thread> threads;
    for (int number = 0; number < kThreads; ++number)
      threads.emplace_back(work, std::cref(api), gpu, number, kTimes);
    for (int i = 0; i < 5; ++i) api.flush();
    for (std::thread& thread : threads) thread.join();
    check(api.stop());
  }
  is_over.store(true);
  always.join();
  std::printf("%d\n", kThreads * kTimes);
}
