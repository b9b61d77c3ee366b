// The table of ThreadRecorders.
#include "tracer/core/threads.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/thread_names.h"

namespace profkit::tracer {
namespace {

// Allocated when the first of their threads appears: a program that locks its memory pays for everything
// mapped.
constexpr uint32_t kSlabThreads = 64;
std::atomic<ThreadRecorder*> slabs[kMaxThreads / kSlabThreads];
std::atomic<uint32_t> next_free_slots[kMaxThreads];
IndexStack free_slots;
std::atomic<uint32_t> next_thread_index{0};
std::atomic<bool> session_records_usage{false};
pthread_key_t thread_key;
bool has_thread_key = false;

// The thread continues to record: destructors of other keys run after ours, and then the C library itself
// frees memory of threads that ended earlier.
void end_thread(void*) {
  ThreadState& state = thread_state;
  RecordingPause quiet;
  state.is_ending = true;
  if (state.recorder == nullptr || ThreadTable::end(state.recorder)) return;
  state.epoch = 0;
  state.recorder = nullptr;
}

// nullptr: no memory. Several threads may need the same slab at once.
ThreadRecorder* make_recorder(uint32_t slot) {
  constexpr size_t kBytes = sizeof(ThreadRecorder) * kSlabThreads;
  std::atomic<ThreadRecorder*>& slab = slabs[slot / kSlabThreads];
  ThreadRecorder* made = slab.load(std::memory_order_acquire);
  if (made == nullptr) {
    auto* const fresh = static_cast<ThreadRecorder*>(reserve_memory(kBytes));
    if (fresh == nullptr) return nullptr;
    if (slab.compare_exchange_strong(made, fresh, std::memory_order_acq_rel)) {
      made = fresh;
    } else {
      syscall(SYS_munmap, fresh, kBytes);
    }
  }
  return made + slot % kSlabThreads;
}

// nullptr: the thread that took the slot has not allocated it yet.
ThreadRecorder* recorder_at(uint32_t slot) {
  ThreadRecorder* const slab = slabs[slot / kSlabThreads].load(std::memory_order_acquire);
  return slab == nullptr ? nullptr : slab + slot % kSlabThreads;
}

// Not before the thread has run its last instruction. A reused thread id only delays this.
bool is_gone(uint64_t os_thread_id) {
  const int saved_errno = errno;
  const bool result = syscall(SYS_tgkill, getpid(), os_thread_id, 0) != 0 && errno == ESRCH;
  errno = saved_errno;
  return result;
}

uint64_t os_thread_id() { return static_cast<uint64_t>(syscall(SYS_gettid)); }

bool is_same(const ThreadEntry& one, const ThreadEntry& other) {
  return std::memcmp(&one, &other, sizeof(ThreadEntry)) == 0;
}

// False: the thread is gone.
bool read_living_name(uint64_t os_thread_id, char (&name)[kThreadNameBytes]) {
  constexpr size_t kKernelBytes = 16;
  char path[64], text[kKernelBytes];
  std::snprintf(path, sizeof(path), "/proc/self/task/%llu/comm",
                static_cast<unsigned long long>(os_thread_id));
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t count = read(file, text, sizeof(text));
  close(file);
  if (count <= 1) return false;
  std::memset(name, 0, sizeof(name));
  std::memcpy(name, text, static_cast<size_t>(count) - 1);  // it ends with a new line
  return true;
}

}  // namespace

bool ThreadTable::prepare() {
  if (has_thread_key) return true;
  if (pthread_key_create(&thread_key, end_thread) != 0) return false;
  has_thread_key = true;
  free_slots.use(next_free_slots, kMaxThreads);
  return true;
}

void ThreadTable::start_session(bool records_usage) {
  next_thread_index.store(0);
  const uint32_t used = free_slots.used();
  for (uint32_t slot = 0; slot < used; ++slot) {  // threads that ended after the last session's last pass
    ThreadRecorder* const recorder = recorder_at(slot);
    if (recorder == nullptr || recorder->epoch_.load() == 0 || !is_gone(recorder->os_thread_id_)) continue;
    take_over_chunk(*recorder);
    recorder->epoch_.store(0);
    free_slots.push(slot);
  }
  session_records_usage.store(records_usage);
}

ThreadRecorder* ThreadTable::attach(uint32_t epoch) {
  ThreadState& state = thread_state;
  ThreadRecorder* recorder = state.recorder;
  if (recorder == nullptr) {
    const uint32_t slot = free_slots.pop();
    if (slot != IndexStack::kNone) recorder = make_recorder(slot);
    if (recorder == nullptr) {
      if (slot != IndexStack::kNone) free_slots.push(slot);
      losses.too_slow.fetch_add(1, std::memory_order_relaxed);
      return nullptr;
    }
    recorder->slot_ = slot;
    recorder->chunk_ = nullptr;
    recorder->correlated_ = 0;
    recorder->keeps_stack_ = false;
    recorder->is_in_event_.store(false, std::memory_order_relaxed);  // of a thread that a fork left behind
    pthread_setspecific(thread_key, recorder);
    state.recorder = recorder;
  } else if (recorder->is_in_event()) {  // a signal handler, and a capture that began a moment ago
    recorder->drop_nested();
    return nullptr;
  }
  recorder->forget_correlations();
  // A chunk left from an earlier session: its last words were never flushed.
  recorder->epoch_.store(0, std::memory_order_relaxed);
  recorder->current_.store(nullptr, std::memory_order_release);
  if (recorder->chunk_ != nullptr) give_back_chunk(recorder->chunk_);
  recorder->chunk_ = nullptr;
  recorder->cursor_ = recorder->trash_;
  recorder->limit_.store(nullptr, std::memory_order_relaxed);
  recorder->last_ticks_ = read_ticks();
  if (!recorder->keeps_stack_) recorder->depth_ = recorder->inherited_depth_ = 0;
  recorder->keeps_stack_ = false;
  recorder->is_dropping_ = false;
  recorder->next_word_ = recorder->lost_records_ = 0;
  recorder->records_usage_ = session_records_usage.load();
  recorder->thread_index_.store(next_thread_index.fetch_add(1), std::memory_order_relaxed);
  for (auto& place : recorder->foreign_ends_) place.store(0, std::memory_order_relaxed);
  recorder->os_thread_id_ = os_thread_id();
  recorder->note_system_name();
  recorder->small_allocations_.store(0);
  recorder->small_allocated_bytes_.store(0);
  recorder->unbalanced_pops_.store(0);
  recorder->is_ended_.store(false);
  recorder->is_gone_ = false;
  recorder->epoch_.store(epoch, std::memory_order_release);
  state.epoch = epoch;
  return recorder;
}

bool ThreadTable::end(ThreadRecorder* recorder) {
  recorder->note_system_name();
  // A capture that has stopped may not have written this thread yet.
  if (recorder->epoch_.load() != 0) {
    recorder->is_ended_.store(true, std::memory_order_release);
    return true;
  }
  recorder->leave_chunk();
  free_slots.push(recorder->slot_);
  return false;
}

void ThreadTable::take_over_chunk(ThreadRecorder& recorder) {
  Chunk* const chunk = recorder.current_.exchange(nullptr, std::memory_order_acq_rel);
  if (chunk != nullptr) hand_over_chunk(chunk);
}

// The first recorder of the session for which is_wanted(recorder); nullptr: none.
template <class IsWanted>
ThreadRecorder* ThreadTable::find(uint32_t epoch, const IsWanted& is_wanted) {
  const uint32_t used = free_slots.used();
  for (uint32_t slot = 0; slot < used; ++slot) {
    ThreadRecorder* const found = recorder_at(slot);
    if (found == nullptr || found->epoch_.load(std::memory_order_acquire) != epoch) continue;
    if (is_wanted(*found)) return found;
  }
  return nullptr;
}

template <class Action>
void ThreadTable::for_each(uint32_t epoch, const Action& action) {
  find(epoch, [&](ThreadRecorder& recorder) {
    action(recorder);
    return false;
  });
}

void ThreadTable::find_gone(uint32_t epoch, bool among_all) {
  for_each(epoch, [&](ThreadRecorder& recorder) {
    if (!among_all && !recorder.is_ended_.load(std::memory_order_acquire)) return;
    if (!is_gone(recorder.os_thread_id_)) return;
    take_over_chunk(recorder);
    recorder.is_ended_.store(true, std::memory_order_relaxed);
    recorder.is_gone_ = true;
  });
}

void ThreadTable::tell_owner(uint64_t token) {
  ThreadRecorder* const owner =
      find(recording.load(std::memory_order_relaxed),
           [&](const ThreadRecorder& recorder) { return recorder.token_thread() == token >> kTickBits; });
  if (owner == nullptr) return;
  for (auto& place : owner->foreign_ends_) {
    uint64_t nothing = 0;
    if (place.compare_exchange_strong(nothing, token, std::memory_order_relaxed)) break;
  }
  owner->limit_.store(nullptr, std::memory_order_relaxed);
}

void ThreadTable::keep_only(ThreadRecorder* recorder, bool keeps_stack, uint64_t fork_ticks) {
  const uint32_t used = free_slots.used();
  free_slots.reset();
  for (uint32_t slot = 0; slot < used; ++slot) {
    ThreadRecorder* const other = recorder_at(slot);
    if (other != nullptr && other != recorder) other->epoch_.store(0, std::memory_order_relaxed);
  }
  // Numbers up to the kept one's are unused: take them all and return the others.
  for (uint32_t slot = 0; recorder != nullptr && slot <= recorder->slot_; ++slot) free_slots.pop();
  for (uint32_t slot = 0; recorder != nullptr && slot < recorder->slot_; ++slot) free_slots.push(slot);
  if (recorder == nullptr) return;
  recorder->chunk_ = nullptr;
  recorder->current_.store(nullptr, std::memory_order_relaxed);
  recorder->epoch_.store(0, std::memory_order_relaxed);  // the number of its thread was the parent's
  recorder->correlated_ = 0;
  recorder->keeps_stack_ = keeps_stack;
  recorder->is_in_event_.store(false, std::memory_order_relaxed);  // a handler may have forked
  for (uint32_t i = 0; i < recorder->depth_; ++i) {
    OpenRange& range = recorder->stack_[i];
    if (i >= recorder->inherited_depth_) range.inherited_token = recorder->token_of(range.begin_ticks);
    range.begin_ticks = fork_ticks + i;
  }
  recorder->inherited_depth_ = recorder->depth_;
}

uint32_t ThreadTable::positions(uint32_t epoch, Position* result) {
  uint32_t count = 0;
  for_each(epoch, [&](ThreadRecorder& recorder) {
    Chunk* chunk = recorder.current_.load(std::memory_order_acquire);
    if (chunk != nullptr) result[count++] = {chunk, chunk->published.load(std::memory_order_acquire)};
  });
  return count;
}

void ThreadTable::write_entries(uint32_t epoch, bool with_changes, bool is_last,
                                void (*write)(const ThreadEntry&)) {
  for_each(epoch, [&](ThreadRecorder& recorder) {
    const bool is_new = recorder.noted_epoch_ != epoch || recorder.noted_.thread != recorder.thread_index();
    const bool is_ended = recorder.is_ended_.load(std::memory_order_acquire);
    if (!is_new && !is_ended && !with_changes) return;
    ThreadEntry entry{};
    entry.thread = recorder.thread_index();
    entry.is_ended = is_ended;
    entry.os_thread_id = recorder.os_thread_id_;
    entry.small_allocations = recorder.small_allocations_.load(std::memory_order_relaxed);
    entry.small_allocated_bytes = recorder.small_allocated_bytes_.load(std::memory_order_relaxed);
    entry.unbalanced_pops = recorder.unbalanced_pops_.load(std::memory_order_relaxed);
    // A thread that recorded before it was named reports its name when it ends, which the process may not
    // wait for. Gone by now: it has reported.
    if (!is_last || is_ended || !read_living_name(entry.os_thread_id, entry.name)) {
      for (int i = 0; i < 2; ++i) {
        const uint64_t word = recorder.system_name_[i].load(std::memory_order_relaxed);
        std::memcpy(entry.name + 8 * i, &word, 8);
      }
    }
    char given[kThreadNameBytes];
    if (given_thread_name(entry.os_thread_id, given)) std::memcpy(entry.name, given, sizeof(given));
    if (is_new || !is_same(entry, recorder.noted_)) write(entry);
    recorder.noted_ = entry;
    recorder.noted_epoch_ = epoch;
    if (recorder.is_gone_) {
      forget_thread_name(entry.os_thread_id);
      recorder.noted_epoch_ = 0;
      recorder.epoch_.store(0, std::memory_order_release);
      free_slots.push(recorder.slot_);
    }
  });
}

void ThreadTable::repeat_after_loss(uint32_t epoch) {
  for_each(epoch, [](ThreadRecorder& recorder) {
    recorder.noted_epoch_ = 0;
    recorder.limit_.store(nullptr, std::memory_order_relaxed);
  });
}

double ThreadTable::empty_range_ticks(uint64_t* words, uint32_t count) {
  static ThreadRecorder recorder;
  const uint64_t before = read_ticks();
  for (uint32_t i = 0; i < count; ++i) {
    recorder.base_ = recorder.cursor_ = words;
    recorder.limit_.store(words + 64, std::memory_order_relaxed);
    recorder.published_ = &recorder.trash_published_;
    recorder.begin(1, 0);
    recorder.end_innermost(0);
  }
  return static_cast<double>(read_ticks() - before) / count;
}

}  // namespace profkit::tracer
