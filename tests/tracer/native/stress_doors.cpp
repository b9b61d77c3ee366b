// Drives the NVTX and ITT doors from many threads while captures start and stop; built with each sanitizer.
// Arguments: a folder for the captures and how many to make. Plays the part of the code that NVTX and ITT
// compile into programs, so that neither's headers are needed. Prints how many ranges the last capture must
// hold.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tracer/core/api.h"
#include "tracer/doors/itt_abi.h"
#include "tracer/doors/nvtx_abi.h"
#include "tracer/doors/open.h"

namespace itt = profkit::tracer::itt;
namespace nvtx = profkit::tracer::nvtx;

extern "C" int InitializeInjectionNvtx2(nvtx::GetExportTable);
extern "C" void __itt_api_init(itt::Global*, int);

// A sanitizer brings its own malloc: the allocation door stays out.
bool profkit::tracer::allocations_are_interposed() { return false; }

namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 3000;

void require(bool is_true, const char* what) {
  if (is_true) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::abort();
}

// --- NVTX as a module of a program has it ---
nvtx::Function core[16], core2[16];
nvtx::Function* core_table[16];
nvtx::Function* core2_table[16];

int module_table(nvtx::Module module, nvtx::Function*** table, unsigned int* size) {
  if (module != nvtx::Module::core && module != nvtx::Module::core2) return 0;
  *table = module == nvtx::Module::core ? core_table : core2_table;
  *size = 16;
  return 1;
}
const nvtx::ExportedCallbacks callbacks{sizeof(nvtx::ExportedCallbacks), module_table};
const void* get_export_table(uint32_t id) { return id == nvtx::kExportCallbacks ? &callbacks : nullptr; }

template <typename Result, typename... Arguments>
Result call(const nvtx::Function function, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(function)(arguments...);
}

// --- ITT likewise ---
itt::Domain* (*domain_create)(const char*);
itt::StringHandle* (*string_handle_create)(const char*);
void (*task_begin)(const itt::Domain*, itt::Id, itt::Id, itt::StringHandle*);
void (*task_end)(const itt::Domain*);
void (*task_begin_overlapped)(const itt::Domain*, itt::Id, itt::Id, itt::StringHandle*);
void (*task_end_overlapped)(const itt::Domain*, itt::Id);
void (*thread_set_name)(const char*);

template <typename Function>
itt::ApiEntry entry(const char* name, Function* function) {
  return {name, reinterpret_cast<void**>(function), nullptr, nullptr, 1};
}

void attach() {
  for (int i = 0; i < 16; ++i) {
    core_table[i] = &core[i];
    core2_table[i] = &core2[i];
  }
  require(InitializeInjectionNvtx2(get_export_table) == 1, "NVTX attaches");
  static itt::ApiEntry api[] = {entry("__itt_domain_create", &domain_create),
                                entry("__itt_string_handle_create", &string_handle_create),
                                entry("__itt_task_begin", &task_begin),
                                entry("__itt_task_end", &task_end),
                                entry("__itt_task_begin_overlapped", &task_begin_overlapped),
                                entry("__itt_task_end_overlapped", &task_end_overlapped),
                                entry("__itt_thread_set_name", &thread_set_name),
                                {nullptr, nullptr, nullptr, nullptr, 0}};
  static itt::Global global{};
  std::memcpy(global.magic, itt::kMagic, sizeof(itt::kMagic));
  global.version_major = itt::kVersion;
  global.api = api;
  __itt_api_init(&global, -1);
  require(task_end_overlapped != nullptr, "ITT attaches");
}

// --- Work: one round records kRangesPerRound ranges and spans and one mark ---
constexpr int kRangesPerRound = 5;
std::atomic<uint64_t> started_range{0};

void one_round(int thread, int round) {
  char text[32];
  std::snprintf(text, sizeof(text), "name %d", round % 500);
  auto* domain = call<nvtx::DomainHandle*>(core2[nvtx::kDomainCreateA],
                                           static_cast<const char*>(round % 2 == 0 ? "even" : "odd"));
  nvtx::EventAttributes event{};
  event.version = 3;
  event.bytes = sizeof(event);
  event.category = static_cast<uint32_t>(round % 7);
  event.payload_type = nvtx::kPayloadInt64;
  event.payload = static_cast<uint64_t>(round);
  event.message_type = nvtx::kMessageRegistered;
  event.message.registered =
      call<nvtx::StringHandle*>(core2[nvtx::kDomainRegisterStringA], domain, static_cast<const char*>(text));
  const nvtx::EventAttributes* attributes = &event;
  if (round % 100 == thread) {
    call<void>(core2[nvtx::kDomainNameCategoryA], domain, event.category, static_cast<const char*>(text));
  }
  call<int>(core2[nvtx::kDomainRangePushEx], domain, attributes);
  call<int>(core[nvtx::kRangePushA], static_cast<const char*>(text));
  call<void>(core[nvtx::kMarkEx], attributes);

  itt::Domain* itt_domain = domain_create(round % 3 == 0 ? "third" : "others");
  const itt::Id id{static_cast<unsigned long long>(thread), static_cast<unsigned long long>(round), 1},
      none{};
  task_begin_overlapped(itt_domain, id, none, string_handle_create(text));
  task_begin(itt_domain, none, none, string_handle_create(text));
  task_end(itt_domain);
  task_end_overlapped(itt_domain, id);

  // A range that whichever thread comes next ends.
  const uint64_t mine = call<uint64_t>(core2[nvtx::kDomainRangeStartEx], domain, attributes);
  call<void>(core2[nvtx::kDomainRangeEnd], domain, started_range.exchange(mine));
  call<int>(core[nvtx::kRangePop]);
  call<int>(core2[nvtx::kDomainRangePop], domain);
}

void work(int thread) {
  thread_set_name("stress");
  for (int round = 0; round < kRounds; ++round) one_round(thread, round);
}

}  // namespace

int main(int, char** arguments) {
  attach();
  const profkit_tracer_api* api = profkit_tracer(PROFKIT_TRACER_API_VERSION);
  const int captures = std::atoi(arguments[2]);
  for (int capture = 0; capture < captures; ++capture) {
    // All but the last begin and end in the middle of the work.
    const bool is_last = capture == captures - 1;
    const std::string path = std::string(arguments[1]) + "/" + std::to_string(capture) + ".profkit";
    started_range = 0;
    std::vector<std::thread> threads;
    if (is_last) require(api->start(path.c_str(), nullptr) == nullptr, "the capture starts");
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
    if (!is_last) {
      require(api->start(path.c_str(), nullptr) == nullptr, "the capture starts");
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      require(api->stop() == nullptr, "the capture stops");
    }
    for (std::thread& thread : threads) thread.join();
    if (is_last) require(api->stop() == nullptr, "the capture stops");
  }
  std::printf("%d %d", kThreads * kRounds * kRangesPerRound, kThreads * kRounds);
  return 0;
}
