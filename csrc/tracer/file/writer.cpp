// The writer thread and its work.
#include "tracer/file/writer.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "tracer/core/background.h"
#include "tracer/core/chunks.h"
#include "tracer/core/clock.h"
#include "tracer/core/names.h"
#include "tracer/core/overhead.h"
#include "tracer/core/session.h"
#include "tracer/core/threads.h"
#include "tracer/cupti/door.h"
#include "tracer/cupti/flusher.h"
#include "tracer/cupti/queue.h"
#include "tracer/file/capture_file.h"

namespace profkit::tracer {
namespace {

constexpr int64_t kEntriesEveryNs = 100'000'000;  // changed counts of threads
constexpr int64_t kIdleEveryNs =
    50'000'000;  // clock and memory while nothing happens: when a killed process was last alive
constexpr long kEntrySizeOffset = 16;  // of d_reclen in the kernel's linux_dirent64
constexpr size_t kScratchBytes = 64 << 10;

struct Writer {
  CaptureFile file;
  bool is_open = false;
  uint32_t epoch = 0;
  uint32_t definitions_written = 0;
  uint32_t described_doors = ~0u;  // ~0: the process block has yet to be written
  uint32_t described_cupti = 0;    // the version of its status in the process block
  DeviceCountsEntry device_counts{};
  int64_t clock_written_ns = 0, sample_written_ns = 0, entries_written_ns = 0;
  uint64_t resident_bytes = 0;
  WatchedDescriptor memory;  // /proc/self/statm
  bool first_thread_left = false;
  bool has_new_events = false;
  FileCounters counted{};  // what the file's counters already have from this process
  uint64_t processes_started = 0, processes_ended = 0;
  uint64_t replaced_names_before = 0;  // by earlier captures, or the parent of a fork
  OverheadEntry overhead{0, 0, -1};
  Position* positions = nullptr;
  uint8_t* scratch = nullptr;
};

Writer writer;
pthread_mutex_t writer_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<uint32_t> wake_word{0};
std::atomic<bool> is_asleep{false};

// Lets a thread of the program do the writer's work. Its signals are blocked meanwhile: a handler that ends
// the process would find the lock taken, and a file too large for the process's limit raises one. The wait is
// bounded: the process may be exiting, and the holder of the lock may hang on a dead disk.
class WriterGuard {
 public:
  WriterGuard() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    is_locked_ = pthread_mutex_timedlock(&writer_mutex, &until) == 0;
  }
  ~WriterGuard() {
    if (is_locked_) pthread_mutex_unlock(&writer_mutex);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WriterGuard(const WriterGuard&) = delete;
  WriterGuard& operator=(const WriterGuard&) = delete;
  explicit operator bool() const { return is_locked_; }

 private:
  sigset_t before_;
  bool is_locked_ = false;
};

void add_process_block() {
  const uint32_t doors = open_door_bits();
  const uint32_t cupti = cupti_status_version();
  if (doors == writer.described_doors && cupti == writer.described_cupti) return;
  const size_t bytes = describe_process(reinterpret_cast<char*>(writer.scratch), kScratchBytes);
  writer.file.add_block(BlockType::process, writer.scratch, bytes);
  writer.described_doors = doors;
  writer.described_cupti = cupti;
}

void add_definitions(uint32_t count) {
  size_t used = 0;
  for (; writer.definitions_written < count; ++writer.definitions_written) {
    std::string_view text;
    const DefinitionEntry entry = definition(writer.definitions_written, &text);
    const size_t padded = (text.size() + 7) / 8 * 8;
    if (used + sizeof(entry) + padded > kScratchBytes) {
      writer.file.add_block(BlockType::definitions, writer.scratch, used);
      used = 0;
    }
    std::memcpy(writer.scratch + used, &entry, sizeof(entry));
    used += sizeof(entry);
    std::memset(writer.scratch + used, 0, padded);
    if (!text.empty()) std::memcpy(writer.scratch + used, text.data(), text.size());
    used += padded;
  }
  if (used != 0) writer.file.add_block(BlockType::definitions, writer.scratch, used);
}

void add_thread_entry(const ThreadEntry& entry) {
  writer.file.add_block(BlockType::thread, &entry, sizeof(entry));
}

void add_events(Chunk& chunk, uint32_t published) {
  if (published > chunk.capacity) published = chunk.capacity;
  if (published <= chunk.flushed) return;
  const uint32_t count = published - chunk.flushed;
  const EventsHeader header{chunk.thread, count, chunk.first_word + chunk.flushed, read_ticks()};
  writer.file.add_block(BlockType::events, &header, sizeof(header), chunk.words + chunk.flushed,
                        size_t{count} * 8);
  chunk.flushed = published;
  writer.has_new_events = true;
}

void add_full_chunks(Chunk* chunk) {
  while (chunk != nullptr) {
    Chunk* const next = chunk->next_full;
    if (chunk->epoch == writer.epoch) add_events(*chunk, chunk->published.load(std::memory_order_acquire));
    give_back_chunk(chunk);
    chunk = next;
  }
}

void add_device_chunks(DeviceChunk* first) {
  for (const DeviceChunk* chunk = first; chunk != nullptr; chunk = chunk->next) {
    writer.file.add_block(BlockType::device_records, chunk->data, chunk->bytes);
  }
  give_back_device_chunks(first);
}

void add_device_counts() {
  DeviceCountsEntry counts{};
  counts.header = {DeviceCountsEntry::kKind, sizeof(counts)};
  counts.dropped_by_cupti = device_counts.dropped_by_cupti.load();
  counts.dropped_too_slow = device_counts.dropped_too_slow.load();
  counts.unknown_records = device_counts.unknown.load();
  counts.cut_records = device_counts.cut.load();
  counts.unfinished = device_counts.unfinished.load();
  if (std::memcmp(&counts, &writer.device_counts, sizeof(counts)) == 0) return;
  writer.device_counts = counts;
  writer.file.add_block(BlockType::device_records, &counts, sizeof(counts));
}

bool read_resident_bytes(uint64_t* result) {
  char text[128];
  if (!writer.memory.is_intact()) writer.memory.open("/proc/self/statm", O_RDONLY);
  const ssize_t count = pread(writer.memory.number(), text, sizeof(text) - 1, 0);
  if (count <= 0) return false;
  text[count] = '\0';
  const char* at = std::strchr(text, ' ');  // total, then resident, in pages
  if (at == nullptr) return false;
  uint64_t pages = 0;
  for (++at; *at >= '0' && *at <= '9'; ++at) pages = pages * 10 + static_cast<uint64_t>(*at - '0');
  *result = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  writer.first_thread_left = pages == 0;  // the file shows that thread's memory: none after pthread_exit()
  return pages != 0;
}

void add_clock_and_sample(int64_t now, bool is_last) {
  if (is_last || writer.has_new_events || now - writer.clock_written_ns >= kIdleEveryNs) {
    const ClockEntry entry = take_sync_point();
    writer.file.add_block(BlockType::clock, &entry, sizeof(entry));
    writer.clock_written_ns = now;
  }
  SampleEntry sample{read_ticks(), 0};
  if (!read_resident_bytes(&sample.resident_bytes)) return;
  if (is_last || sample.resident_bytes != writer.resident_bytes ||
      now - writer.sample_written_ns >= kIdleEveryNs) {
    writer.file.add_block(BlockType::samples, &sample, sizeof(sample));
    writer.resident_bytes = sample.resident_bytes;
    writer.sample_written_ns = now;
  }
}

void add_counters(bool is_last) {
  FileCounters total{};
  total.dropped_disk_full = losses.disk_full.load();
  total.dropped_too_slow = losses.too_slow.load();
  total.dropped_too_deep = losses.too_deep.load();
  total.dropped_device = device_counts.dropped();
  total.dropped_records = total.dropped_disk_full + total.dropped_too_slow + total.dropped_too_deep +
                          losses.nested.load() + total.dropped_device;
  total.stalled_ns = losses.stalled_ns.load();
  total.untraced_execs = losses.untraced_execs.load();
  total.replaced_names = replaced_names() - writer.replaced_names_before;
  total.processes_started = writer.processes_started;
  total.processes_ended = writer.processes_ended;
  if (std::memcmp(&total, &writer.counted, sizeof(total)) == 0) return;
  constexpr size_t kCounts = sizeof(FileCounters) / sizeof(uint64_t);
  uint64_t more[kCounts], before[kCounts];
  std::memcpy(more, &total, sizeof(more));
  std::memcpy(before, &writer.counted, sizeof(before));
  for (size_t i = 0; i < kCounts; ++i) more[i] -= before[i];
  FileCounters amounts;
  std::memcpy(&amounts, more, sizeof(amounts));
  if (writer.file.add_counters(amounts, is_last)) writer.counted = total;
}

// Threads that are gone come first: their last chunks are among the full ones. Positions before definitions:
// every name in an event is then defined earlier in the file.
void write_pass(bool is_last) {
  const int64_t now = monotonic_ns();
  const uint32_t definitions_before = writer.definitions_written;
  const uint64_t lost_before = writer.file.lost_records();
  writer.has_new_events = false;
  const bool with_changes = is_last || now - writer.entries_written_ns >= kEntriesEveryNs;
  if (with_changes) writer.entries_written_ns = now;
  ThreadTable::find_gone(writer.epoch, with_changes);
  const uint32_t count = ThreadTable::positions(writer.epoch, writer.positions);
  Chunk* const full = collect_full_chunks();
  DeviceChunk* const device = collect_device_chunks();
  add_process_block();
  add_definitions(definition_count());
  ThreadTable::write_entries(writer.epoch, with_changes, is_last, add_thread_entry);
  for (uint32_t i = 0; i < count; ++i) add_events(*writer.positions[i].chunk, writer.positions[i].published);
  add_full_chunks(full);
  add_device_chunks(device);
  add_device_counts();
  add_clock_and_sample(now, is_last);
  if (!writer.file.write_out()) {
    writer.definitions_written = definitions_before;
    writer.described_doors = ~0u;
    ThreadTable::repeat_after_loss(writer.epoch);
  }
  losses.disk_full.fetch_add(writer.file.lost_records() - lost_before, std::memory_order_relaxed);
  add_counters(is_last);
}

void add_overhead_block() {
  writer.file.add_block(BlockType::overhead, &writer.overhead, sizeof(writer.overhead));
}

void start_process(uint32_t epoch) {
  writer.is_open = true;
  writer.epoch = epoch;
  writer.definitions_written = 0;
  writer.described_doors = ~0u;
  writer.device_counts = {};
  writer.device_counts.header = {DeviceCountsEntry::kKind, sizeof(DeviceCountsEntry)};
  writer.clock_written_ns = writer.sample_written_ns = writer.entries_written_ns = 0;
  writer.counted = {};
  writer.replaced_names_before = replaced_names();
  writer.processes_started = 1;
  writer.processes_ended = 0;
  writer.memory.close();  // a fork child's still shows its parent
  writer.file.start_process(random_id());
  add_process_block();
  add_overhead_block();
  write_pass(true);
}

void sleep_until_woken(uint32_t seen, uint32_t flush_ms) {
  const timespec timeout{flush_ms / 1000, static_cast<long>(flush_ms % 1000) * 1'000'000};
  is_asleep.store(true);
  if (full_chunk_count() < kFullChunksToWake) {
    syscall(SYS_futex, &wake_word, FUTEX_WAIT_PRIVATE, seen, &timeout, nullptr, 0);
  }
  is_asleep.store(false);
}

// Only the program's first thread, which has left, and the tracer's own.
bool is_only_thread_left() {
  const int folder = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  char entries[1024];
  const long bytes = syscall(SYS_getdents64, folder, entries, sizeof(entries));
  close(folder);
  uint64_t count = 0;
  for (long at = 0; at < bytes; ++count) {
    uint16_t size;
    std::memcpy(&size, entries + at + kEntrySizeOffset, sizeof(size));
    at += size;
  }
  return count == (cupti_flusher_runs() ? 5 : 4);  // with "." and ".."
}

bool work_once(uint32_t epoch, uint32_t* flush_ms, bool* must_exit) {
  pthread_mutex_lock(&writer_mutex);
  const bool is_current = writer.is_open && writer.epoch == epoch;
  if (is_current) write_pass(false);
  if (is_current) *flush_ms = options().flush_ms;
  *must_exit = is_current && writer.first_thread_left && is_only_thread_left();
  pthread_mutex_unlock(&writer_mutex);
  return is_current;
}

void* run_writer(void* argument) {
  const uint32_t epoch = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(argument));
  thread_state.quiet = 1;
  prctl(PR_SET_NAME, "profkit-writer");
  const double skew_ns = measure_core_skew_ns();
  pthread_mutex_lock(&writer_mutex);
  if (writer.is_open && writer.epoch == epoch && skew_ns >= 0) {
    writer.overhead.cross_core_skew_ns = skew_ns;
    add_overhead_block();
  }
  pthread_mutex_unlock(&writer_mutex);
  for (;;) {
    const uint32_t seen = wake_word.load();
    uint32_t flush_ms = 0;
    bool must_exit = false;
    if (!work_once(epoch, &flush_ms, &must_exit)) return nullptr;
    if (must_exit) std::exit(0);  // as libc when the last thread of a program ends, which this one hides
    sleep_until_woken(seen, flush_ms);
  }
}

}  // namespace

const char* open_writer(const char* path, uint32_t epoch) {
  if (writer.positions == nullptr) {
    writer.positions = static_cast<Position*>(reserve_memory(kMaxThreads * sizeof(Position)));
    writer.scratch = static_cast<uint8_t*>(reserve_memory(kScratchBytes));
    if (writer.positions == nullptr || writer.scratch == nullptr) return "no memory for the tracer's buffers";
  }
  const WriterGuard guard;
  if (!guard) return "the last capture's writer hangs; is its disk there?";
  const char* why = writer.file.open(path);
  if (why != nullptr) return why;
  writer.overhead = measure_overhead();
  start_process(epoch);
  return nullptr;
}

const char* open_writer_in_child(uint32_t epoch) {
  const WriterGuard guard;
  start_process(epoch);
  return nullptr;
}

const char* start_writer_thread() {
  return start_background(run_writer, writer.epoch)
             ? nullptr
             : "cannot start the writer thread; raise the limit of threads";
}

void write_now() {
  const WriterGuard guard;
  if (guard && writer.is_open) write_pass(false);
}

void write_end() {
  const WriterGuard guard;
  if (!guard || !writer.is_open) return;
  write_pass(true);
  const EndEntry entry{read_ticks()};
  writer.file.add_block(BlockType::end, &entry, sizeof(entry));
  writer.file.write_out();
  writer.processes_ended = 1;
  add_counters(true);
}

void retract_end() {
  const WriterGuard guard;
  if (!guard || !writer.is_open) return;
  writer.processes_ended = 0;
  add_counters(true);
}

void close_writer() {
  const WriterGuard guard;
  if (!guard) return;
  writer.file.close();
  writer.memory.close();
  writer.is_open = false;
  wake_writer();
}

void wake_writer() {
  if (!is_asleep.exchange(false)) return;
  wake_word.fetch_add(1);
  syscall(SYS_futex, &wake_word, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
}

void reset_writer_lock() {
  pthread_mutex_init(&writer_mutex, nullptr);
  is_asleep.store(false);
}

const char* writer_path() {
  const WriterGuard guard;
  return guard && writer.is_open ? writer.file.path() : "";
}

}  // namespace profkit::tracer
