// Merges the threads' events by time and keeps the live blocks: heap blocks in a hash table by address,
// mappings in an ordered map, since an unmap may cover several of them or parts.
#include "captures/read/memory.h"

#include <algorithm>
#include <map>
#include <queue>

namespace profkit::captures {
namespace {

using tracer::AllocationCall;
using Kind = MemoryEvent::Kind;

constexpr uint64_t kPageBytes = 4096;

// Address -> row, open addressing with linear probing. Deleting shifts back, so that it never fills up with
// tombstones. Address 0 cannot be stored, nor is it ever allocated.
class LiveBlocks {
 public:
  // The row stored before under this address, or -1.
  int32_t put(uint64_t address, int32_t row) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[find(address)];
    const int32_t before = slot.address == 0 ? -1 : slot.row;
    count_ += slot.address == 0 ? 1 : 0;
    slot = {address, row};
    return before;
  }

  int32_t take(uint64_t address) {
    if (slots_.empty()) return -1;
    size_t hole = find(address);
    if (slots_[hole].address == 0) return -1;
    const int32_t row = slots_[hole].row;
    for (size_t next = (hole + 1) & mask(); slots_[next].address != 0; next = (next + 1) & mask()) {
      // An entry may move back only if its home does not lie after the hole.
      if (((next - home(slots_[next].address)) & mask()) >= ((next - hole) & mask())) {
        slots_[hole] = slots_[next];
        hole = next;
      }
    }
    slots_[hole] = {};
    --count_;
    return row;
  }

 private:
  struct Slot {
    uint64_t address = 0;
    int32_t row = -1;
  };

  size_t mask() const { return slots_.size() - 1; }
  size_t home(uint64_t address) const {
    // Where this table lies differs from run to run: no file can be made of addresses that all collide.
    uint64_t mixed = (address ^ (address >> 29) ^ reinterpret_cast<uintptr_t>(this)) * 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 32)) * 0xD6E8FEB86659FD93u;
    return static_cast<size_t>(mixed >> 20) & mask();
  }
  size_t find(uint64_t address) const {
    size_t at = home(address);
    while (slots_[at].address != 0 && slots_[at].address != address) at = (at + 1) & mask();
    return at;
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(std::max<size_t>(1024, old.size() * 2), {});
    for (const Slot& slot : old) {
      if (slot.address != 0) slots_[find(slot.address)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t count_ = 0;
};

class Matcher {
 public:
  Matcher(AllocationColumns& rows, size_t max_rows)
      : rows_(rows), first_(rows.time_ns.size()), max_rows_(max_rows) {}

  void apply(const MemoryEvent& event, int32_t thread) {
    switch (event.kind) {
      case Kind::allocate:
        return allocate(event, thread);
      case Kind::release:
        return release(event, thread);
      case Kind::unmap:
        if (!unmap(event, page_end(event.address, event.bytes), thread)) ++counts_.frees_of_unknown;
    }
  }

  MatchCounts finish() {
    if (has_splits_) sort_by_time();
    return counts_;
  }

 private:
  static uint64_t range_end(uint64_t address, uint64_t bytes) {
    return bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
  }
  // The kernel unmaps whole pages.
  static uint64_t page_end(uint64_t address, uint64_t bytes) {
    const uint64_t end = range_end(address, bytes);
    return end > UINT64_MAX - kPageBytes ? UINT64_MAX : (end + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  static bool is_mapping(uint8_t call) {
    return call == static_cast<uint8_t>(AllocationCall::mmap) ||
           call == static_cast<uint8_t>(AllocationCall::mremap);
  }

  int32_t add(const MemoryEvent& event, int32_t thread) {
    rows_.append(thread, event.range, event.time_ns, event.call, event.address, event.bytes, -1, -1, -1,
                 uint8_t{0});
    return static_cast<int32_t>(rows_.time_ns.size() - 1);
  }

  void allocate(const MemoryEvent& event, int32_t thread) {
    if (event.address == 0) return;
    if (rows_.time_ns.size() >= max_rows_) {
      ++counts_.left_out;
      return;
    }
    if (is_mapping(event.call)) {
      // A mapping put over others (MAP_FIXED) replaces what was there.
      unmap(event, page_end(event.address, event.bytes), thread);
      mappings_[event.address] = add(event, thread);
      return;
    }
    const int32_t before = live_.put(event.address, add(event, thread));
    // Its release was not recorded; it came before this, from whom is not known.
    if (before >= 0) rows_.free_time_ns[static_cast<size_t>(before)] = event.time_ns;
  }

  void release(const MemoryEvent& event, int32_t thread) {
    int32_t row = live_.take(event.address);
    if (row < 0) {
      const auto mapping = mappings_.find(event.address);
      if (mapping == mappings_.end()) {
        ++counts_.frees_of_unknown;
        return;
      }
      row = mapping->second;
      mappings_.erase(mapping);
    }
    free_row(row, event, thread);
  }

  void free_row(int32_t row, const MemoryEvent& event, int32_t thread) {
    const auto at = static_cast<size_t>(row);
    rows_.free_time_ns[at] = event.time_ns;
    rows_.free_thread[at] = thread;
    rows_.free_range[at] = event.range;
  }

  // Frees what is within [address, end); false when nothing does.
  bool unmap(const MemoryEvent& event, uint64_t end, int32_t thread) {
    const uint64_t begin = event.address;
    auto at = mappings_.lower_bound(begin);
    if (at != mappings_.begin()) {
      const auto before = std::prev(at);
      if (mapping_end(*before) > begin) at = before;
    }
    bool has_hit = false;
    while (at != mappings_.end() && at->first < end) {
      const int32_t row = at->second;
      const uint64_t from = at->first, to = mapping_end(*at);
      at = mappings_.erase(at);
      has_hit = true;
      if (from < begin) keep_part(row, from, begin);
      if (to > end) keep_part(row, end, to);
      const uint64_t freed_from = std::max(from, begin);
      rows_.address[static_cast<size_t>(row)] = freed_from;
      rows_.bytes[static_cast<size_t>(row)] = std::min(to, end) - freed_from;
      free_row(row, event, thread);
    }
    return has_hit;
  }

  uint64_t mapping_end(const std::pair<const uint64_t, int32_t>& mapping) const {
    return range_end(mapping.first, rows_.bytes[static_cast<size_t>(mapping.second)]);
  }

  // A row for the part of a mapping that stays. The call is counted with the part that went first.
  void keep_part(int32_t row, uint64_t from, uint64_t to) {
    if (rows_.time_ns.size() >= max_rows_) {
      ++counts_.left_out;
      return;
    }
    const auto at = static_cast<size_t>(row);
    has_splits_ = true;
    const MemoryEvent part{rows_.time_ns[at], from,           to - from,
                           rows_.range[at],   rows_.call[at], Kind::allocate};
    mappings_[from] = add(part, rows_.thread[at]);
    rows_.is_part.back() = 1;
  }

  void sort_by_time() {
    std::vector<size_t> order(rows_.time_ns.size() - first_);
    for (size_t i = 0; i < order.size(); ++i) order[i] = first_ + i;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::make_pair(rows_.time_ns[a], rows_.address[a]) <
             std::make_pair(rows_.time_ns[b], rows_.address[b]);
    });
    rows_.visit([&](std::string_view, auto& column) {
      const auto copy = column;
      for (size_t i = 0; i < order.size(); ++i) column[first_ + i] = copy[order[i]];
    });
  }

  AllocationColumns& rows_;
  size_t first_;  // of this process
  size_t max_rows_;
  LiveBlocks live_;
  std::map<uint64_t, int32_t> mappings_;
  MatchCounts counts_;
  bool has_splits_ = false;
};

struct Head {
  int64_t time_ns;
  bool is_allocate;  // at the same time, releases come first: an address is free before it is given again
  size_t thread;
  bool operator>(const Head& other) const {
    if (time_ns != other.time_ns) return time_ns > other.time_ns;
    if (is_allocate != other.is_allocate) return is_allocate;
    return thread > other.thread;
  }
};

Head head_of(const std::vector<ThreadSummary>& threads, size_t thread, size_t at) {
  const MemoryEvent& event = threads[thread].memory[at];
  return {event.time_ns, event.kind == Kind::allocate, thread};
}

}  // namespace

MatchCounts match_allocations(std::vector<ThreadSummary>& threads, const std::vector<int32_t>& thread_rows,
                              size_t max_rows, AllocationColumns& rows) {
  Matcher matcher(rows, max_rows);
  std::vector<size_t> next(threads.size(), 0);
  std::priority_queue<Head, std::vector<Head>, std::greater<>> heads;
  for (size_t thread = 0; thread < threads.size(); ++thread) {
    if (!threads[thread].memory.empty()) heads.push(head_of(threads, thread, 0));
  }
  while (!heads.empty()) {
    const size_t thread = heads.top().thread;
    heads.pop();
    const std::vector<MemoryEvent>& events = threads[thread].memory;
    size_t at = next[thread];
    // Continues with the same thread as long as it is the earliest: a single thread never touches the heap.
    do {
      matcher.apply(events[at++], thread_rows[thread]);
    } while (at < events.size() && (heads.empty() || heads.top() > head_of(threads, thread, at)));
    next[thread] = at;
    if (at < events.size()) heads.push(head_of(threads, thread, at));
  }
  for (ThreadSummary& thread : threads) std::vector<MemoryEvent>().swap(thread.memory);
  return matcher.finish();
}

}  // namespace profkit::captures
