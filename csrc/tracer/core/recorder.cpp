// Per-thread recording: everything that is not the hot path.
#include "tracer/core/recorder.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tracer/core/chunks.h"
#include "tracer/core/session.h"
#include "tracer/core/threads.h"
#include "tracer/file/writer.h"

namespace profkit::tracer {

std::atomic<uint32_t> recording{0};
__thread ThreadState thread_state;
Losses losses;

namespace {

// How long a thread waits for the writer before it drops. The kernel may throttle a writer for up to 200 ms
// when too many pages are dirty, and on few cores the writer needs the time slices of the waiting threads.
constexpr int64_t kMaxStallNs = 100'000'000;
constexpr long kStallStepNs = 100'000;
constexpr uint32_t kMaxDepthInSmallChunk = 64;

Chunk* take_chunk_or_wait(bool wants_small, bool may_be_small, bool may_wait) {
  Chunk* chunk = take_chunk(wants_small, may_be_small);
  if (chunk != nullptr || !may_wait) return chunk;
  const int64_t start = monotonic_ns();
  int64_t waited = 0;
  while (chunk == nullptr && waited < kMaxStallNs && recording.load(std::memory_order_relaxed) != 0) {
    wake_writer();
    const timespec step{0, kStallStepNs};
    nanosleep(&step, nullptr);
    chunk = take_chunk(wants_small, may_be_small);
    waited = monotonic_ns() - start;
  }
  losses.stalled_ns.fetch_add(static_cast<uint64_t>(waited), std::memory_order_relaxed);
  return chunk;
}

}  // namespace

void ThreadRecorder::drop_record() {
  ++lost_records_;
  ++next_word_;  // at least one word: the jump shows the loss even if the `dropped` event is lost too
  losses.too_slow.fetch_add(1, std::memory_order_relaxed);
}

// By the thread itself: opening files under /proc in the writer would take descriptor numbers that a program
// may be counting on between a close() and an open().
void ThreadRecorder::note_system_name() {
  uint64_t words[2] = {};
  prctl(PR_GET_NAME, words);
  system_name_[0].store(words[0], std::memory_order_relaxed);
  system_name_[1].store(words[1], std::memory_order_relaxed);
}

// The chunk goes to the writer; nothing may be written before open_chunk.
void ThreadRecorder::leave_chunk() {
  if (chunk_ == nullptr) return;
  next_word_ = chunk_->first_word + chunk_->published.load(std::memory_order_relaxed);
  current_.store(nullptr, std::memory_order_release);
  hand_over_chunk(chunk_);
  chunk_ = nullptr;
}

void ThreadRecorder::open_chunk(Chunk* chunk) {
  chunk->thread = thread_index();
  chunk->epoch = epoch_.load(std::memory_order_relaxed);
  chunk->first_word = next_word_;
  chunk_ = chunk;
  base_ = chunk->words;
  published_ = &chunk->published;
  uint64_t* at = base_;
  *at++ = event_word(EventKind::snapshot, depth_, last_ticks_);
  for (uint32_t i = 0; i < depth_; ++i) {
    *at++ = stack_[i].label;
    *at++ = stack_[i].begin_ticks;
  }
  if (lost_records_ != 0) {
    *at++ = event_word(EventKind::dropped, 0, last_ticks_);
    *at++ = lost_records_;
    lost_records_ = 0;
  }
  is_dropping_ = false;
  publish(at);
  limit_.store(base_ + chunk->capacity - kReservedWords, std::memory_order_relaxed);
  current_.store(chunk, std::memory_order_release);
}

uint64_t* ThreadRecorder::claim_slowly() {
  RecordingPause quiet;
  const int saved_errno = errno;
  const uint64_t ticks = read_ticks();
  const uint64_t gap = ticks - last_ticks_;
  if (gap < uint64_t{1} << 63) {
    if (gap >= kMaxGapTicks && chunk_ != nullptr) {  // of kReservedWords two are kept for this
      cursor_[0] = event_word(EventKind::time, 0, ticks);
      cursor_[1] = ticks;
      publish(cursor_ + 2);
    }
    last_ticks_ = ticks;
  }
  const bool is_first = chunk_ == nullptr && !is_dropping_;
  leave_chunk();
  if (!is_dropping_) note_system_name();
  if (full_chunk_count() >= kFullChunksToWake) wake_writer();
  // A child of vfork() or of a bare clone() has no writer and must not wait for one.
  const bool may_wait = !is_dropping_ && session_is_ours();
  Chunk* chunk = take_chunk_or_wait(is_first, depth_ <= kMaxDepthInSmallChunk, may_wait);
  if (chunk != nullptr) {
    open_chunk(chunk);
  } else {
    is_dropping_ = true;
    drop_record();
    base_ = cursor_ = trash_;
    published_ = &trash_published_;
    limit_.store(nullptr, std::memory_order_relaxed);
  }
  errno = saved_errno;
  return cursor_;
}

uint64_t* ThreadRecorder::claim_and_update_stack() {
  claim_slowly();
  for (std::atomic<uint64_t>& place : foreign_ends_) {
    if (place.load(std::memory_order_relaxed) == 0) continue;
    const uint64_t token = place.exchange(0, std::memory_order_relaxed);
    if (token >> kTickBits == token_thread()) end_own(token);
  }
  return cursor_;
}

uint64_t ThreadRecorder::correct_time(uint64_t ticks, uint64_t*& at) {
  if (ticks - last_ticks_ - 1 >= uint64_t{1} << 63) return last_ticks_ + 1;
  at[0] = event_word(EventKind::time, 0, ticks);
  at[1] = ticks;
  at += 2;
  return ticks;
}

uint64_t* ThreadRecorder::write_usage(uint64_t* at, uint32_t argument) {
  const int saved_errno = errno;
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  errno = saved_errno;
  const auto pair = [](long low, long high) {
    return uint64_t{static_cast<uint32_t>(low)} | static_cast<uint64_t>(high) << 32;
  };
  at[0] = event_word(EventKind::usage, argument, 0);
  at[1] = pair(usage.ru_minflt, usage.ru_majflt);
  at[2] = pair(usage.ru_nvcsw, usage.ru_nivcsw);
  return at + 3;
}

void ThreadRecorder::close_gap(uint32_t index) {
  std::memmove(stack_ + index, stack_ + index + 1, (depth_ - index) * sizeof(OpenRange));
}

uint32_t ThreadRecorder::refuse_begin() {
  losses.too_deep.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

uint32_t ThreadRecorder::drop_nested() {
  losses.nested.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

bool ThreadRecorder::end_inherited(uint64_t token) {
  for (uint32_t i = inherited_depth_; i > 0; --i) {
    if (stack_[i - 1].inherited_token == token) return end_at(i - 1);
  }
  return false;
}

bool ThreadRecorder::refuse_end() {
  add(unbalanced_pops_, 1);
  return false;
}

void ThreadRecorder::end_elsewhere(uint64_t token) {
  put(EventKind::end_elsewhere, 0, token >> kTickBits, token & kTickMask);
  ThreadTable::tell_owner(token);
}

}  // namespace profkit::tracer
