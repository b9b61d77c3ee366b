// Mutates capture files and reads them: `fuzz_reader COUNT SEED FILE...`. Built with sanitizers by the test.
// Half of the mutations are repaired afterwards (checksums set right), or only the checksum would be tested.
// Whatever the reader gives must keep its promises; a violated one ends the program with the seed.
#include <sanitizer/common_interface_defs.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "captures/read/reader.h"
#include "tracer/file/crc32c.h"

namespace {

using profkit::captures::Capture;
using profkit::captures::RangeKind;
using profkit::tracer::BlockHeader;
using Bytes = std::vector<uint8_t>;
using Random = std::mt19937_64;

constexpr size_t kHeader = profkit::tracer::kHeaderPageBytes;

struct Piece {
  BlockHeader header;
  Bytes payload;
};

uint64_t below(Random& random, uint64_t limit) { return limit == 0 ? 0 : random() % limit; }

std::vector<Piece> split(const Bytes& file) {
  std::vector<Piece> pieces;
  for (size_t at = kHeader; at + sizeof(BlockHeader) <= file.size();) {
    Piece piece{};
    std::memcpy(&piece.header, &file[at], sizeof piece.header);
    const auto first = file.begin() + static_cast<ptrdiff_t>(at + sizeof piece.header);
    piece.payload.assign(first, first + piece.header.payload_bytes);
    at += sizeof piece.header + piece.header.payload_bytes;
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

Bytes joined(const Bytes& file, std::vector<Piece>& pieces) {
  Bytes result(file.begin(), file.begin() + kHeader);
  for (Piece& piece : pieces) {
    piece.header.payload_bytes = static_cast<uint32_t>(piece.payload.size());
    Bytes rest(sizeof(BlockHeader) - 8);
    std::memcpy(rest.data(), reinterpret_cast<const uint8_t*>(&piece.header) + 8, rest.size());
    rest.insert(rest.end(), piece.payload.begin(), piece.payload.end());
    piece.header.crc = profkit::tracer::crc32c(0, rest.data(), rest.size());
    const auto* start = reinterpret_cast<const uint8_t*>(&piece.header);
    result.insert(result.end(), start, start + 8);
    result.insert(result.end(), rest.begin(), rest.end());
  }
  return result;
}

uint64_t odd_number(Random& random) {
  const uint64_t numbers[] = {0,
                              1,
                              7,
                              8,
                              255,
                              65535,
                              65536,
                              UINT32_MAX,
                              uint64_t{1} << 43,
                              (uint64_t{1} << 44) - 1,
                              uint64_t{1} << 62,
                              uint64_t{1} << 63,
                              UINT64_MAX,
                              UINT64_MAX - 7};
  return random() % 3 == 0 ? random() : numbers[below(random, std::size(numbers))];
}

void mutate_payload(Random& random, Bytes& payload) {
  const size_t words = payload.size() / 8;
  if (words == 0) return;
  const size_t at = 8 * below(random, words);
  const uint64_t number = odd_number(random);
  switch (below(random, 7)) {
    case 0:
      payload[below(random, payload.size())] ^= static_cast<uint8_t>(1u << below(random, 8));
      break;
    case 1:
      std::memcpy(&payload[at], &number, 8);
      break;
    case 2:
      std::memcpy(&payload[at], &number, 4);
      break;
    case 3:  // another kind of event
      payload[at + 7] = static_cast<uint8_t>((payload[at + 7] & 15) | below(random, 16) << 4);
      break;
    case 4:
      payload.resize(8 * below(random, words));
      break;
    case 5:  // words doubled
      payload.insert(payload.begin() + static_cast<ptrdiff_t>(at), payload.begin(), payload.begin() + 8);
      break;
    default:
      std::swap_ranges(payload.begin(), payload.begin() + 8, payload.begin() + static_cast<ptrdiff_t>(at));
  }
}

Bytes mutate_blocks(Random& random, const Bytes& file) {
  std::vector<Piece> pieces = split(file);
  for (uint64_t round = 1 + below(random, 4); round > 0 && !pieces.empty(); --round) {
    const size_t at = below(random, pieces.size()), other = below(random, pieces.size());
    switch (below(random, 10)) {
      case 0:
        pieces.erase(pieces.begin() + static_cast<ptrdiff_t>(at));
        break;
      case 1:
        pieces.push_back(pieces[at]);
        break;
      case 2:
        std::swap(pieces[at], pieces[other]);
        break;
      case 3:
        pieces[at].header.process_id = pieces[other].header.process_id;
        break;
      case 4:
        pieces[at].header.type =
            static_cast<profkit::tracer::BlockType>(random() % 4 == 0 ? 16 : below(random, 10));
        break;
      default:
        mutate_payload(random, pieces[at].payload);
    }
  }
  return joined(file, pieces);
}

Bytes mutate_bytes(Random& random, Bytes file) {
  for (uint64_t round = 1 + below(random, 4); round > 0 && !file.empty(); --round) {
    // The header's counters and padding tell little: mostly the blocks are hit.
    const size_t low = random() % 8 == 0 ? 0 : std::min(kHeader, file.size() - 1);
    const size_t at = low + below(random, file.size() - low), other = low + below(random, file.size() - low);
    const size_t count = std::min<size_t>(1 + below(random, 200), file.size() - std::max(at, other));
    switch (below(random, 5)) {
      case 0:
        file.resize(at);
        break;
      case 1:
        file.erase(file.begin() + static_cast<ptrdiff_t>(at),
                   file.begin() + static_cast<ptrdiff_t>(at + count));
        break;
      case 2: {
        const Bytes copy(file.begin() + static_cast<ptrdiff_t>(other),
                         file.begin() + static_cast<ptrdiff_t>(other + count));
        file.insert(file.begin() + static_cast<ptrdiff_t>(at), copy.begin(), copy.end());
        break;
      }
      default:
        file[at] ^= static_cast<uint8_t>(1u << below(random, 8));
    }
  }
  return file;
}

uint64_t current_seed = 0;

void print_seed() {
  std::printf("repeat with: fuzz_reader 1 %llu FILE...\n", static_cast<unsigned long long>(current_seed));
  std::fflush(stdout);
}

void stop_hanging(int) {
  std::printf("hangs\n");
  print_seed();
  _exit(3);
}

[[noreturn]] void fail(const char* promise, size_t row) {
  std::printf("broken promise: %s (row %zu)\n", promise, row);
  print_seed();
  _exit(4);
}

void check_ranges(const Capture& capture) {
  const auto& r = capture.ranges;
  const auto& threads = capture.threads;
  const auto thread_count = static_cast<int32_t>(threads.process.size());
  std::vector<int64_t> busy_until(r.kind.size(), -1), thread_busy(threads.process.size(), -1);
  for (size_t i = 0; i < r.kind.size(); ++i) {
    if (r.thread[i] < 0 || r.thread[i] >= thread_count || r.end_thread[i] < 0 ||
        r.end_thread[i] >= thread_count)
      fail("threads exist", i);
    if (r.name[i] < 0 || static_cast<size_t>(r.name[i]) >= capture.strings.size()) fail("names exist", i);
    if (r.start_ns[i] < 0 || r.end_ns[i] < r.start_ns[i]) fail("ends follow starts", i);
    if (i > 0 && r.thread[i] < r.thread[i - 1]) fail("rows are grouped by thread", i);
    if (i > 0 && r.thread[i] == r.thread[i - 1] && r.start_ns[i] < r.start_ns[i - 1])
      fail("begins ascend", i);
    const auto thread = static_cast<size_t>(r.thread[i]);
    const bool is_range = r.kind[i] == static_cast<uint8_t>(RangeKind::range);
    const int32_t parent = r.parent[i];
    if (parent >= 0) {
      const auto p = static_cast<size_t>(parent);
      if (p >= i || r.thread[p] != r.thread[i]) fail("a parent stands before, on the same thread", i);
      if (r.kind[p] != static_cast<uint8_t>(RangeKind::range)) fail("a parent is a range", i);
      if (r.start_ns[i] < r.start_ns[p] || r.start_ns[i] > r.end_ns[p]) fail("a row begins in its parent", i);
      if (is_range && r.end_ns[i] > r.end_ns[p]) fail("a range lies within its parent", i);
      if (r.depth[i] != r.depth[p] + 1) fail("depth counts ancestors", i);
    } else if (r.depth[i] != 0) {
      fail("a root has depth 0", i);
    }
    if (!is_range) continue;
    int64_t& busy = parent >= 0 ? busy_until[static_cast<size_t>(parent)] : thread_busy[thread];
    if (r.start_ns[i] < busy) fail("siblings do not overlap", i);
    busy = r.end_ns[i];
    if (r.start_ns[i] < threads.start_ns[thread] || r.end_ns[i] > threads.end_ns[thread])
      fail("a range lies within its thread's life", i);
  }
}

void check_allocations(const Capture& capture) {
  const auto& a = capture.allocations;
  const auto rows = static_cast<int32_t>(capture.ranges.kind.size());
  for (size_t i = 0; i < a.time_ns.size(); ++i) {
    if (a.thread[i] < 0 || static_cast<size_t>(a.thread[i]) >= capture.threads.process.size())
      fail("an allocation's thread exists", i);
    for (int32_t range : {a.range[i], a.free_range[i]}) {
      if (range < -1 || range >= rows) fail("an allocation's range exists", i);
      if (range >= 0 &&
          capture.ranges.kind[static_cast<size_t>(range)] != static_cast<uint8_t>(RangeKind::range))
        fail("an allocation belongs to a range", i);
    }
    const int32_t process = capture.threads.process[static_cast<size_t>(a.thread[i])];
    if (a.time_ns[i] < 0 || (a.free_time_ns[i] != -1 && a.free_time_ns[i] < a.time_ns[i]))
      fail("memory is freed after it was allocated", i);
    if (i == 0) continue;
    const int32_t before = capture.threads.process[static_cast<size_t>(a.thread[i - 1])];
    if (process < before || (process == before && a.time_ns[i] < a.time_ns[i - 1]))
      fail("allocations are in order of time", i);
  }
}

void check_device(const Capture& capture) {
  const auto processes = static_cast<int32_t>(capture.processes.size());
  const auto strings = static_cast<int32_t>(capture.strings.size());
  const auto& a = capture.device.activities;
  for (size_t i = 0; i < a.kind.size(); ++i) {
    if (a.process[i] < 0 || a.process[i] >= processes) fail("an activity's process exists", i);
    if (a.start_ns[i] < 0 || a.end_ns[i] < a.start_ns[i]) fail("an activity ends after it started", i);
    if (a.kind[i] > 2 || (a.kind[i] == 0) != (a.name[i] >= 0)) fail("kernels have names", i);
    if (a.name[i] >= strings) fail("names of kernels exist", i);
    if (a.bytes[i] < -1) fail("bytes of copies are not negative", i);
  }
  if (a.bytes.size() != a.kind.size() || a.dynamic_shared_bytes.size() != a.kind.size() ||
      a.queued_ns.size() != a.kind.size() || a.target_kind.size() != a.kind.size())
    fail("columns of activities are equally long", 0);
  const auto& c = capture.device.calls;
  for (size_t i = 0; i < c.name.size(); ++i) {
    if (c.start_ns[i] < 0 || c.end_ns[i] < c.start_ns[i]) fail("a call ends after it started", i);
    if (c.name[i] < 0 || c.name[i] >= strings) fail("names of calls exist", i);
    if (c.token_range[i] < -1 || c.token_range[i] >= static_cast<int32_t>(capture.ranges.kind.size()))
      fail("a call's range exists", i);
  }
  for (size_t i = 0; i < capture.device.devices.name.size(); ++i) {
    if (capture.device.devices.name[i] < 0 || capture.device.devices.name[i] >= strings)
      fail("names of devices exist", i);
  }
  for (const int64_t time_ns : capture.device.memory.time_ns) {
    if (time_ns < 0) fail("memory events have times", 0);
  }
}

// Rows and texts come from bytes of the file: never more than a fixed multiple of its size.
void check_size(const Capture& capture, size_t bytes) {
  if (capture.ranges.kind.size() > bytes / 8 + 16)
    fail("no more ranges than words", capture.ranges.kind.size());
  if (capture.allocations.time_ns.size() > bytes / 8 + 16) fail("no more allocations than words", 0);
  if (capture.device.activities.kind.size() > bytes / 72) fail("no more activities than entries", 0);
  if (capture.threads.process.size() > bytes / 32) fail("no more threads than blocks", 0);
  if (capture.warnings.size() > 40) fail("warnings are few", capture.warnings.size());
}

bool read_and_check(const Bytes& file) {
  // A buffer of exactly this size: a byte read behind it is an error of the sanitizer.
  const Bytes exact(file.begin(), file.end());
  try {
    const Capture capture = profkit::captures::decode_capture(exact.data(), exact.size());
    check_ranges(capture);
    check_allocations(capture);
    check_device(capture);
    check_size(capture, exact.size());
    for (const auto& process : capture.processes) {
      if (process.start_ns < 0 || process.end_ns < process.start_ns)
        fail("a process ends after it started", 0);
    }
    return !capture.ranges.kind.empty();
  } catch (const profkit::captures::CaptureError& error) {
    if (error.message.empty()) fail("an error says something", 0);
    return false;
  }
}

Bytes read_file(const char* path) {
  std::ifstream stream(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(stream), {});
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  const uint64_t files = std::strtoull(words[1], nullptr, 10), seed = std::strtoull(words[2], nullptr, 10);
  __sanitizer_set_death_callback(print_seed);
  std::signal(SIGALRM, stop_hanging);
  std::vector<Bytes> corpus;
  for (int i = 3; i < count; ++i) corpus.push_back(read_file(words[i]));
  for (const Bytes& file : corpus) {
    if (!read_and_check(file)) fail("an intact file has ranges", 0);
  }
  uint64_t with_ranges = 0;
  for (uint64_t i = 0; i < files; ++i) {
    // Each file has its own seed: the one that is printed is enough to repeat it.
    Random random(seed + i);
    const Bytes& original = corpus[below(random, corpus.size())];
    const bool is_repaired = random() % 2 == 0;
    const Bytes mutated = is_repaired ? mutate_blocks(random, original) : mutate_bytes(random, original);
    current_seed = seed + i;
    alarm(20);  // one that takes longer hangs
    with_ranges += read_and_check(mutated) ? 1 : 0;
  }
  std::printf("%llu files read, %llu with ranges\n", static_cast<unsigned long long>(files),
              static_cast<unsigned long long>(with_ranges));
  return 0;
}
