// All ThreadRecorders of the process: created for new threads, visited by the writer, reused after threads
// end.
#pragma once

#include <cstdint>

#include "tracer/core/recorder.h"

namespace profkit::tracer {

constexpr uint32_t kMaxThreads = 4096;  // recording at the same time; each takes about 6 KiB once touched

// Records lost in this process, and time waited; the writer adds them to the file's counters.
struct Losses {
  std::atomic<uint64_t> too_slow{0}, too_deep{0}, disk_full{0}, stalled_ns{0};
  std::atomic<uint64_t> nested{0};          // by signal handlers that interrupted an event
  std::atomic<uint64_t> untraced_execs{0};  // no records: programs of which there will be none
  uint64_t records() const { return too_slow.load() + too_deep.load() + disk_full.load() + nested.load(); }
};
extern Losses losses;

struct Position {
  Chunk* chunk;
  uint32_t published;
};

class ThreadTable {
 public:
  static bool prepare();  // false: no memory
  static void start_session(bool records_usage);
  static ThreadRecorder* attach(uint32_t epoch);
  // The thread is about to end. True: it belongs to a capture and may record until it is gone; the writer, or
  // the start of the next capture, gives the place back then. False: the place is free already.
  static bool end(ThreadRecorder* recorder);
  // Another thread ended a range of the thread named in the token, which still has it on its stack. Without a
  // free slot for the message the range stays there, and costs a level of depth.
  static void tell_owner(uint64_t token);
  // In a fork child: only this thread is left. Its open ranges, if they are of the same capture, begin again
  // at `fork_ticks`.
  static void keep_only(ThreadRecorder* recorder, bool keeps_stack, uint64_t fork_ticks);

  // The rest is for the writer. Takes the chunks of threads that are gone: of those that announced their end,
  // or `among_all`, since a thread may record its first event after its destructors ran.
  static void find_gone(uint32_t epoch, bool among_all);
  // Positions of chunks in use; the number of them.
  static uint32_t positions(uint32_t epoch, Position* result);
  // Calls `write` with every entry that is new, has ended, or has changed (`with_changes`); gives the places
  // of threads that are gone back. `is_last`: the names of threads that still run are read once more.
  static void write_entries(uint32_t epoch, bool with_changes, bool is_last,
                            void (*write)(const ThreadEntry&));
  // Blocks were lost: entries must be written and chunks started again.
  static void repeat_after_loss(uint32_t epoch);

  // Cost of an empty range, in ticks of the clock, measured on a recorder that is not written to a file.
  static double empty_range_ticks(uint64_t* words, uint32_t count);

 private:
  template <class IsWanted>
  static ThreadRecorder* find(uint32_t epoch, const IsWanted& is_wanted);
  template <class Action>
  static void for_each(uint32_t epoch, const Action& action);
  static void take_over_chunk(ThreadRecorder& recorder);
};

}  // namespace profkit::tracer
