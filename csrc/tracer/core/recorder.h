// What the doors call: one ThreadRecorder per thread. No lock, no allocation
// and no system call except when a chunk is full, a thread is seen for the first time or a name is new.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tracer/core/clock.h"
#include "tracer/file/format.h"

namespace profkit::tracer {

// --- Names (names.cpp): ids live as long as the process; every capture gets all definitions it needs ---
uint32_t string_id(std::string_view text);
uint32_t domain_id(std::string_view name, Source source);
uint32_t category_id(uint32_t domain, uint32_t number, std::string_view name);

struct LabelKey {
  uint32_t string = 0, domain = 0, category = 0, colour = 0;
  Source source = Source::profkit;
};
uint32_t label_id(const LabelKey& key);

// --- Threads ---
struct OpenRange {
  uint64_t begin_ticks;
  uint32_t label;
  uint32_t group;            // who may pop it: see begin()
  uint64_t inherited_token;  // in a fork child, whose times are other ones: the token given out by the parent
};

struct Chunk;

// Whether ranges are pushed to CUPTI as external correlation ids. Only cupti/correlation.cpp sets it.
extern std::atomic<bool> correlates_device;

// Group of ranges that are closed by token only.
constexpr uint32_t kNoGroup = ~0u;

struct Payload {
  PayloadType type = PayloadType::none;
  uint64_t bits = 0;
};

// Written by its thread alone, except for what is atomic: the writer reads that, and clears limit_ to have a
// new chunk started. A signal handler may record, too; what it records while it interrupts an event of its
// own thread is dropped, and counted.
class alignas(64) ThreadRecorder {
 public:
  // `group` separates stacks that share the thread: NVTX pops the innermost range of its domain only.
  // Returns the begin ticks; 0 when the range was not recorded (too deep): it must not be popped. Without
  // room the stack is still maintained, so that ends find their begins and ranges that stay open are in the
  // next snapshot.
  uint64_t begin(uint32_t label, uint32_t group, Payload payload = {}) {
    if (is_in_event()) return drop_nested();
    if (depth_ >= kMaxDepth) return refuse_begin();
    const InEvent event(*this);
    uint64_t* at = claim_for_begin();
    const uint64_t ticks = stamp(at);
    *at++ = event_word(label <= kMaxArgument ? EventKind::begin : EventKind::begin_wide,
                       label <= kMaxArgument ? label : 0, ticks);
    if (label > kMaxArgument) *at++ = label;
    OpenRange& range = stack_[depth_++];
    range.begin_ticks = ticks;
    range.label = label;
    range.group = group;
    if (records_usage_) at = write_usage(at, 0);
    publish(put_payload(at, payload));
    if (correlates_device.load(std::memory_order_relaxed)) push_correlation(ticks);
    return ticks;
  }

  // Close the innermost range of the group; false (and counted) when it has none.
  bool end_innermost(uint32_t group) {
    if (is_in_event()) return drop_nested() != 0;
    const InEvent event(*this);
    for (uint32_t i = depth_; i > 0; --i) {
      if (stack_[i - 1].group == group) return end_at(i - 1);
    }
    return refuse_end();
  }

  // Tokens name a range in the whole process: 20 bits of the thread's index, 44 of the begin ticks.
  uint64_t token_of(uint64_t begin_ticks) const {
    return token_thread() << kTickBits | (begin_ticks & kTickMask);
  }
  // A token of another thread writes `end_elsewhere`; one of this thread that is not open does nothing.
  void end_token(uint64_t token) {
    if (is_in_event()) {
      drop_nested();
      return;
    }
    const InEvent event(*this);
    if (token >> kTickBits == token_thread() && end_own(token)) return;
    if (inherited_depth_ != 0 && end_inherited(token)) return;
    if (token >> kTickBits != token_thread()) end_elsewhere(token);
  }

  void mark(uint32_t label, Payload payload = {}) { write(EventKind::mark, 0, label, payload); }
  void span_begin(uint64_t id, uint32_t label, Payload payload = {}) {
    write(EventKind::span_begin, 0, id, label, payload);
  }
  void span_end(uint64_t id) { write(EventKind::span_end, 0, id); }
  void allocate(AllocationCall call, const void* address, uint64_t bytes) {
    write(EventKind::allocate, static_cast<uint32_t>(call), reinterpret_cast<uint64_t>(address), bytes);
  }
  void release(AllocationCall call, const void* address) {
    write(EventKind::release, static_cast<uint32_t>(call), reinterpret_cast<uint64_t>(address));
  }
  void unmap(const void* address, uint64_t bytes) {
    write(EventKind::unmap, 0, reinterpret_cast<uint64_t>(address), bytes);
  }
  void count_small_allocation(uint64_t bytes) {
    add(small_allocations_, 1);
    add(small_allocated_bytes_, bytes);
  }
  uint32_t depth() const { return depth_; }
  uint64_t os_thread_id() const { return os_thread_id_; }
  // Unique in the process; for span ids.
  uint32_t thread_index() const { return thread_index_.load(std::memory_order_relaxed); }

  // Memory of the NVTX and ITT doors for this thread (doors/thread.h), made by them on first use. It stays
  // with the object when a later thread takes it over: the recorder neither frees nor changes it.
  void* door_state = nullptr;

 private:
  friend class ThreadTable;
  friend uint64_t next_span_id(ThreadRecorder& recorder);

  // From claiming space to publishing the event. For signal handlers on the same thread: the compiler must
  // keep the order, the processor does anyway.
  class InEvent {
   public:
    explicit InEvent(ThreadRecorder& recorder) : flag_(recorder.is_in_event_) {
      flag_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    }
    ~InEvent() {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      flag_.store(false, std::memory_order_relaxed);
    }
    InEvent(const InEvent&) = delete;
    InEvent& operator=(const InEvent&) = delete;

   private:
    std::atomic<bool>& flag_;
  };
  bool is_in_event() const { return is_in_event_.load(std::memory_order_relaxed); }

  // Space after limit_: the longest event with a `time` before it, its usage and payload, and a final `time`.
  static constexpr uint32_t kReservedWords = 12;
  static constexpr uint64_t kMaxGapTicks = (uint64_t{1} << (kTickBits - 1)) - 2;

  uint64_t* claim() {
    uint64_t* at = cursor_;
    return at <= limit_.load(std::memory_order_relaxed) ? at : claim_slowly();
  }
  // Only here may ranges that other threads ended leave the stack: an end has already computed its index.
  uint64_t* claim_for_begin() {
    uint64_t* at = cursor_;
    return at <= limit_.load(std::memory_order_relaxed) ? at : claim_and_update_stack();
  }
  // One comparison covers both: the clock did not advance (another core's clock), or the gap is too long.
  uint64_t stamp(uint64_t*& at) {
    uint64_t ticks = read_ticks();
    if (ticks - last_ticks_ - 1 >= kMaxGapTicks) ticks = correct_time(ticks, at);
    last_ticks_ = ticks;
    return ticks;
  }
  void publish(uint64_t* end) {
    cursor_ = end;
    published_->store(static_cast<uint32_t>(end - base_), std::memory_order_release);
  }
  static uint64_t* put_payload(uint64_t* at, Payload payload) {
    if (payload.type == PayloadType::none) return at;
    at[0] = event_word(EventKind::payload, static_cast<uint32_t>(payload.type), 0);
    at[1] = payload.bits;
    return at + 2;
  }
  void write(EventKind kind, uint32_t argument, uint64_t word1, Payload payload = {}) {
    if (is_in_event()) {
      drop_nested();
      return;
    }
    const InEvent event(*this);
    uint64_t* at = claim();
    const uint64_t ticks = stamp(at);
    at[0] = event_word(kind, argument, ticks);
    at[1] = word1;
    publish(put_payload(at + 2, payload));
  }
  void write(EventKind kind, uint32_t argument, uint64_t word1, uint64_t word2, Payload payload = {}) {
    if (is_in_event()) {
      drop_nested();
      return;
    }
    const InEvent event(*this);
    put(kind, argument, word1, word2, payload);
  }
  void put(EventKind kind, uint32_t argument, uint64_t word1, uint64_t word2, Payload payload = {}) {
    uint64_t* at = claim();
    const uint64_t ticks = stamp(at);
    at[0] = event_word(kind, argument, ticks);
    at[1] = word1;
    at[2] = word2;
    publish(put_payload(at + 3, payload));
  }
  bool end_own(uint64_t token) {
    for (uint32_t i = depth_; i > 0; --i) {
      if (((stack_[i - 1].begin_ticks ^ token) & kTickMask) == 0) return end_at(i - 1);
    }
    return false;
  }
  bool end_at(uint32_t index) {
    uint64_t* at = claim();
    const uint64_t ticks = stamp(at);
    if (records_usage_) at = write_usage(at, 1);
    *at++ = event_word(EventKind::end, index, ticks);
    --depth_;
    if (index != depth_) close_gap(index);
    if (index < inherited_depth_) --inherited_depth_;
    publish(at);
    if (correlated_ != 0) pop_correlation(index);
    return true;
  }
  static void add(std::atomic<uint64_t>& count,
                  uint64_t amount) {  // one thread writes: no locked instruction
    count.store(count.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  uint64_t token_thread() const { return thread_index() & 0xFFFFF; }

  // CUPTI's external correlation (cupti/correlation.h): how many of the innermost ranges are pushed.
  void push_correlation(uint64_t begin_ticks);
  void pop_correlation(uint32_t index);
  void forget_correlations();

  uint64_t* claim_slowly();
  uint64_t* claim_and_update_stack();
  uint64_t correct_time(uint64_t ticks, uint64_t*& at);
  uint64_t* write_usage(uint64_t* at, uint32_t argument);
  void close_gap(uint32_t index);
  bool end_inherited(uint64_t token);
  uint32_t refuse_begin();
  uint32_t drop_nested();
  bool refuse_end();
  void end_elsewhere(uint64_t token);
  void open_chunk(Chunk* chunk);
  void leave_chunk();
  void drop_record();
  void note_system_name();

  uint64_t* cursor_ = nullptr;
  std::atomic<uint64_t*> limit_{nullptr};  // an event may start up to here
  uint64_t* base_ = nullptr;
  std::atomic<uint32_t>* published_ = nullptr;
  uint64_t last_ticks_ = 0;
  uint32_t depth_ = 0;
  uint32_t inherited_depth_ = 0;  // the outermost ranges, which a fork child has from its parent
  uint32_t correlated_ = 0;       // the innermost ranges, whose tokens CUPTI has
  std::atomic<uint32_t> thread_index_{0};
  std::atomic<bool> is_in_event_{false};
  bool records_usage_ = false;
  bool is_dropping_ = false;  // no chunk: events go to trash_
  bool keeps_stack_ = false;  // a fork child continues with its parent's open ranges
  Chunk* chunk_ = nullptr;
  uint64_t next_word_ = 0;     // words of the stream before the chunk in use, lost ones included
  uint64_t lost_records_ = 0;  // since the last chunk
  std::atomic<uint64_t> last_span_{0};
  uint32_t slot_ = 0;

  // Tokens of this thread's ranges that other threads ended; 0: a free place.
  static constexpr int kForeignEnds = 8;
  std::atomic<uint64_t> foreign_ends_[kForeignEnds]{};

  // For the writer.
  std::atomic<Chunk*> current_{nullptr};
  std::atomic<uint32_t> epoch_{0};  // the session it belongs to; 0 none
  std::atomic<bool> is_ended_{false};
  std::atomic<uint64_t> small_allocations_{0}, small_allocated_bytes_{0}, unbalanced_pops_{0};
  uint64_t os_thread_id_ = 0;
  std::atomic<uint64_t> system_name_[2]{};  // 16 bytes, zero-terminated
  // The writer's own notes about the thread.
  bool is_gone_ = false;
  ThreadEntry noted_{};
  uint32_t noted_epoch_ = 0;

  std::atomic<uint32_t> trash_published_{0};
  uint64_t trash_[2 * kReservedWords] = {};
  OpenRange stack_[kMaxDepth];
};

// Not 0 while a capture runs: the number of the session. The one test that an idle door makes.
extern std::atomic<uint32_t> recording;

struct ThreadState {
  ThreadRecorder* recorder;
  uint32_t epoch;  // the session that `recorder` was set up for
  uint16_t quiet;  // depth of RecordingPause
  bool is_ending;
  bool is_forking;  // between the handlers of fork(): it holds the tracer's locks
};
extern __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

// While one exists, the thread does the tracer's own work and is not recorded. Nor can it be cancelled: the
// tracer holds locks, and the program's call need not be a cancellation point.
class RecordingPause {
 public:
  RecordingPause() {
    ++thread_state.quiet;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  }
  ~RecordingPause() {
    pthread_setcancelstate(cancel_state_, nullptr);
    --thread_state.quiet;
  }
  RecordingPause(const RecordingPause&) = delete;
  RecordingPause& operator=(const RecordingPause&) = delete;

 private:
  int cancel_state_ = PTHREAD_CANCEL_ENABLE;
};

ThreadRecorder* attach_thread();

// This thread's recorder, made on first use; nullptr when nothing records, the capture began while the thread
// ended, or the call comes from inside the recorder itself (so that the allocation door does not record the
// tracer).
inline ThreadRecorder* this_thread() {
  const uint32_t epoch = recording.load(std::memory_order_relaxed);
  if (epoch == 0) return nullptr;
  const ThreadState& state = thread_state;
  if (state.quiet != 0) return nullptr;
  return state.epoch == epoch ? state.recorder : attach_thread();
}

// Process-wide id for a span_begin/span_end pair.
inline uint64_t next_span_id(ThreadRecorder& recorder) {
  const uint64_t number = recorder.last_span_.fetch_add(1, std::memory_order_relaxed) + 1;
  return (uint64_t{recorder.thread_index()} + 1) << 32 | (number & 0xFFFFFFFF);
}

// --- The session (session.cpp) ---
struct Options {
  uint32_t flush_ms = 25;                // a killed process loses at most about this much
  uint64_t allocation_threshold = 1024;  // smaller ones are only counted
  uint32_t buffer_mib = 32;              // all chunks together
  bool usage = false;       // page faults and context switches per range: a system call at each end
  bool allocations = true;  // only with LD_PRELOAD
  bool children = true;     // processes started by this one are captured too
  bool cuda = true;         // what the GPU does, if the process uses one
};
const Options& options();

// nullptr on success, otherwise why not (a text that stays until the next start). Creates the file or, if it
// is an intact capture file without blocks of this process, appends to it. One session at a time.
const char* start(const char* path, const Options& options);
// Flushes, writes the last block, stops the writer thread. Ranges still open stay open in the file.
const char* stop();
// Everything published so far is in the file when this returns.
void flush();
// Path of the running capture, or "".
const char* capture_path();

// "threshold=1024,flush_ms=25,buffer_mib=32,usage=1,allocations=1,children=1,cuda=1" from
// PROFKIT_TRACE_OPTIONS. Returns false and names the bad part in `why` (a buffer of 128 bytes).
bool parse_options(const char* text, Options* result, char* why);

}  // namespace profkit::tracer
