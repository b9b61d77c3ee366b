// What the doors call: one ThreadRecorder per thread, written by that thread alone. No lock, no allocation
// and no system call except when a chunk is full, a thread is seen for the first time or a name is new.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "tracer/clock.h"
#include "tracer/format.h"

namespace profkit::tracer {

// --- Names (names.cpp): ids live as long as the process; every capture gets all definitions it needs
// -----------
uint32_t string_id(std::string_view text);
uint32_t domain_id(std::string_view name, Source source);
uint32_t category_id(uint32_t domain, uint32_t number, std::string_view name);

struct LabelKey {
  uint32_t string = 0, domain = 0, category = 0, colour = 0;
  Source source = Source::profkit;
};
uint32_t label_id(const LabelKey& key);

// --- Threads
// ----------------------------------------------------------------------------------------------------
struct OpenRange {
  uint64_t begin_ticks;
  uint32_t label;
  uint32_t serial;  // grows with every begin of the thread; names this very range
  uint32_t group;   // who may pop it: see begin()
};

// Chunk of a thread's event words; full ones go to the writer, which gives them back.
struct Chunk;

class ThreadRecorder {
 public:
  // `group` separates stacks that share the thread: NVTX pops the innermost range of its own domain only.
  // Returns the serial; 0 when the range was not recorded (too deep, or no room).
  uint32_t begin(uint32_t label, uint32_t group);
  // Close the innermost range of the group; false (and counted) when it has none.
  bool end_innermost(uint32_t group);
  // Close exactly this range, wherever it stands in the stack; false when it is not open on this thread.
  bool end_serial(uint32_t serial);
  void mark(uint32_t label);
  void span_begin(uint64_t id, uint32_t label);
  void span_end(uint64_t id);
  // The value of the event just written.
  void payload(PayloadType type, uint64_t bits);
  void allocate(AllocationCall call, const void* address, uint64_t bytes);
  void release(AllocationCall call, const void* address);
  void unmap(const void* address, uint64_t bytes);
  void count_small_allocation(uint64_t bytes);
  uint32_t depth() const;
  // Unique in the process; for span ids.
  uint32_t thread_index() const;

  // Memory of the NVTX and ITT doors for this thread (door_thread.h), made by them on first use. It stays with
  // the object when a later thread takes it over: the recorder neither frees nor changes it.
  void* door_state = nullptr;
};

// Not 0 while a capture runs. The one test that an idle door makes.
extern std::atomic<uint32_t> recording;

// This thread's recorder, made on first use; nullptr when nothing records, the thread is ending, or the call
// comes from inside the recorder itself (so that the allocation door does not record the tracer).
ThreadRecorder* this_thread();

// Process-wide id for a span_begin/span_end pair.
uint64_t next_span_id(const ThreadRecorder& recorder);

// --- The session (session.cpp)
// --------------------------------------------------------------------------------
struct Options {
  uint32_t flush_ms = 25;                // a killed process loses at most about this much
  uint64_t allocation_threshold = 1024;  // smaller ones are only counted
  uint32_t buffer_mib = 32;              // all chunks together
  bool usage = false;       // page faults and context switches per range: a system call at each end
  bool allocations = true;  // only with LD_PRELOAD
  bool children = true;     // processes started by this one are captured too
};
const Options& options();

// nullptr on success, otherwise why not (static or thread-local text). Creates the file or, if it is an
// intact capture file without blocks of this process, appends to it. One session at a time.
const char* start(const char* path, const Options& options);
// Flushes, writes the last block, stops the writer thread. Ranges still open stay open in the file.
const char* stop();
// Everything published so far is in the file when this returns.
void flush();
// Path of the running capture, or "".
const char* capture_path();

// "threshold=1024,flush_ms=25,buffer_mib=32,usage=1,allocations=1,children=1" from PROFKIT_TRACE_OPTIONS.
// Returns false and names the bad part in `why` (a buffer of 128 bytes).
bool parse_options(const char* text, Options* result, char* why);

}  // namespace profkit::tracer
