// The capture file, byte by byte (docs/capture-format.md says the same in words): what the recorder appends
// and the reader checks. Little endian. Several processes may append to one file: every block is one write().
#pragma once

#include <cstddef>
#include <cstdint>

namespace profkit::tracer {

// --- The file ---
// A header page of 4096 bytes, then blocks. Only the counters in the header page ever change after writing:
// they must be countable when the disk is full, so they live in a page that already exists.

constexpr char kFileMagic[8] = {'P', 'R', 'O', 'F', 'K', 'I', 'T', '\n'};
constexpr uint32_t kFormatVersion = 1;
constexpr size_t kHeaderPageBytes = 4096;
constexpr size_t kHeaderCountersOffset = 256;

struct FileHeader {
  char magic[8];
  uint32_t version;       // a reader refuses a newer one
  uint32_t header_bytes;  // kHeaderPageBytes: where the first block starts
  uint64_t
      capture_id;  // random; every block repeats it, so that bytes of another file are not taken for ours
  int64_t created_unix_ns;  // CLOCK_REALTIME when the file was made
  uint32_t reserved[7];     // zero
  uint32_t crc;             // CRC-32C of all bytes above
};
static_assert(sizeof(FileHeader) == 64);

// At kHeaderCountersOffset; every recording process adds to it with pread and pwrite under flock() (not
// through a mapping: a store to a page of a truncated file or a full copy-on-write disk would raise SIGBUS).
struct FileCounters {
  uint64_t dropped_records;    // records lost before they reached the file, all reasons
  uint64_t dropped_disk_full;  // of these: the disk was full or writing failed
  uint64_t dropped_too_slow;   // of these: the disk (or the writer thread) did not keep up
  uint64_t dropped_too_deep;   // of these: ranges nested deeper than kMaxDepth
  uint64_t stalled_ns;         // time that recording threads waited for the writer instead of dropping
  uint64_t processes_started;
  uint64_t processes_ended;  // those that wrote their last block; fewer than started: some were killed
  uint64_t replaced_names;   // names given after the tables were full: recorded as "(too many names)"
  uint64_t dropped_device;   // of dropped_records: what the GPU did, lost by CUPTI or before the file
  uint64_t untraced_execs;   // programs that took a process's place, or that it started, without the tracer
  uint64_t reserved[6];
};
static_assert(sizeof(FileCounters) == 128);

// --- Blocks ---
constexpr uint32_t kBlockMagic = 0x314B4250;  // "PBK1" as bytes

enum class BlockType : uint32_t {
  // JSON text of one process: {"pid", "parent_pid", "command": [...], "host", "clock": "tsc"|"monotonic",
  // "flush_ms", "allocation_threshold", "doors": [...], "profkit": version, "layout": ...}. First block of a
  // process; its text describes the layout of the rest. Written again when a door opens later: the last one
  // of a process counts.
  process = 1,
  definitions = 2,  // DefinitionEntry...: strings, domains, categories, labels; ids ascend from 1 per process
  thread = 3,       // ThreadEntry: a thread appeared, was named, or ended
  events = 4,       // EventsHeader, then event words
  clock = 5,        // ClockEntry[]: pairs of ticks and CLOCK_MONOTONIC
  samples = 6,      // SampleEntry[]: the process's memory over time
  overhead = 7,     // OverheadEntry: what recording costs, measured in this process at start
  end = 8,          // EndEntry: the process ended normally (more may follow if it was an exec that failed)
  // Numbers from 16 on: GPU activity (device_format.h). A reader skips types it does not know and reports it.
  device_records = 16,  // DeviceEntryHeader and the fields of its kind, repeated
};

struct BlockHeader {
  uint32_t magic;
  uint32_t crc;  // CRC-32C of the rest of this header and the payload
  BlockType type;
  uint32_t payload_bytes;  // a multiple of 8, at most kMaxPayloadBytes
  uint64_t capture_id;
  uint64_t process_id;  // random per recording process (a pid may be used twice); a fork child has its own
};
static_assert(sizeof(BlockHeader) == 32);
constexpr uint32_t kMaxPayloadBytes = 1u << 20;

// --- Definitions ---
enum class DefinitionKind : uint32_t { string = 1, domain = 2, category = 3, label = 4 };

// Followed by `text_bytes` of UTF-8 padded with zeros to 8. Entries refer only to entries defined before
// them.
//   string:   text; id is a string id
//   domain:   a = string id of its name, b = source (Source); id is a domain id. 0 means no domain.
//   category: a = string id, b = domain id, c = the number the program gave it; id is a category id
//   label:    what a range is called: a = string id, b = domain id, c = category id (0 none), d = ARGB colour
//             (0 none), e = source (Source); id is a label id
struct DefinitionEntry {
  DefinitionKind kind;
  uint32_t id;
  uint32_t a, b, c, d, e;
  uint32_t text_bytes;
};
static_assert(sizeof(DefinitionEntry) == 32);

enum class Source : uint32_t { profkit = 1, nvtx = 2, itt = 3 };

struct ThreadEntry {
  uint32_t thread;  // index, ascending from 0 per process; never reused
  uint32_t is_ended;
  uint64_t os_thread_id;
  uint64_t small_allocations;  // below the threshold: only counted
  uint64_t small_allocated_bytes;
  uint64_t unbalanced_pops;  // pops of nothing
  char name[32];             // zero-terminated
};
static_assert(sizeof(ThreadEntry) == 72);

struct ClockEntry {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t uncertainty_ns;  // half of the time that taking the pair took
};
static_assert(sizeof(ClockEntry) == 24);

struct SampleEntry {
  uint64_t ticks;
  uint64_t resident_bytes;
};
static_assert(sizeof(SampleEntry) == 16);

struct OverheadEntry {
  double empty_range_ns;      // median over batches of a begin and end with nothing inside
  double clock_read_ns;       // one reading of the clock
  double cross_core_skew_ns;  // largest difference seen between the clocks of two cores; -1 not measured
};
static_assert(sizeof(OverheadEntry) == 24);

struct EndEntry {
  uint64_t ticks;
};
static_assert(sizeof(EndEntry) == 8);

// --- Event words ---
// The stream of one thread, in order: words of 8 bytes. The first word of an event:
//   bits 0..43 low bits of the clock, 44..59 argument, 60..63 kind
// Within one thread time never runs back. Two consecutive events are less than 2^43 ticks apart, or a `time`
// event is between them; the first event of a block is less than 2^43 ticks from the block's `written_ticks`
// (normally before it; clocks of two cores may differ a little). Begins of one thread have different ticks. A
// thread's ranges form a stack; replaying the stream gives every event its innermost open range, which is
// therefore not written.
constexpr int kTickBits = 44;
constexpr uint64_t kTickMask = (uint64_t{1} << kTickBits) - 1;
constexpr int kArgumentBits = 16;
constexpr uint32_t kMaxArgument = (1u << kArgumentBits) - 1;
constexpr uint32_t kMaxDepth = 1024;

enum class EventKind : uint32_t {
  // Word counts include the first word.
  begin = 1,       // 1 word: a range opens; argument = label
  begin_wide = 2,  // 2 words: label in word 1 (labels above 65535)
  end = 3,   // 1 word: argument = index in the stack of the range that closes (normally the last). One from
             //   the middle is taken out and the rest stays: such a range is a span, not part of the tree.
  mark = 4,  // 2 words: an instant; label in word 1
  span_begin = 5,  // 3 words: a start/end range, maybe across threads; id in word 1, label in word 2
  span_end = 6,    // 2 words: id in word 1
  payload = 7,     // 2 words: belongs to the event just before (a begin's `usage` may come between);
                   //   argument = PayloadType, value bits in word 1. The clock bits are 0.
  allocate = 8,    // 3 words: argument = AllocationCall; address in word 1, requested bytes in word 2
  release = 9,     // 2 words: argument = AllocationCall; address in word 1
  unmap = 10,      // 3 words: address in word 1, bytes in word 2
  usage = 11,  // 3 words: argument 0: belongs to the begin just before; 1: to the end just after. Word 1 =
  //   minor faults (low 32 bits) and major faults (high), word 2 = voluntary (low) and involuntary
  //   (high) context switches; the thread's counts so far, modulo 2^32. The clock bits are 0.
  time = 12,  // 2 words: full clock in word 1
  snapshot =
      13,  // 1 + 2 * argument words: the whole stack, outermost first: label, then full begin ticks. Stands
           //   at the start of every chunk: after lost blocks decoding resumes here. As a thread's very
           //   first event it may list ranges: those that a fork child's parent has open, from the fork on.
           //   They hold their places in the child's stack, but are rows of the parent only.
  dropped = 14,        // 2 words: the number of records of this thread lost here
  end_elsewhere = 15,  // 3 words: this thread closed a range that another thread opened: the opener's thread
                       //   index modulo 2^20 in word 1, bits 0..43 of that range's begin ticks in word 2. In
                       //   the opener's stream the range stays in the stack (or is closed later by `end`;
                       //   the time here counts): such a range is a span. May match nothing.
};

enum class PayloadType : uint32_t {
  none = 0,  // never in a file
  int64 = 1,
  uint64 = 2,
  float64 = 3,
  int32 = 4,
  uint32 = 5,
  float32 = 6,
  opaque = 7
};
// opaque: a payload that has no number form (an NVTX extended one); the word is the bytes' count.

enum class AllocationCall : uint32_t {
  malloc = 1,
  calloc = 2,
  realloc = 3,
  aligned_alloc = 4,
  posix_memalign = 5,
  memalign = 6,
  free = 7,
  mmap = 8,
  mremap = 9,
  munmap = 10,
};

struct EventsHeader {
  uint32_t thread;
  uint32_t word_count;
  uint64_t first_word;     // how many words this thread wrote before, lost ones included: a jump shows a loss
  uint64_t written_ticks;  // the clock when the block was written
};
static_assert(sizeof(EventsHeader) == 24);

constexpr uint64_t event_word(EventKind kind, uint32_t argument, uint64_t ticks) {
  return (uint64_t{static_cast<uint32_t>(kind)} << 60) | (uint64_t{argument} << kTickBits) |
         (ticks & kTickMask);
}

}  // namespace profkit::tracer
