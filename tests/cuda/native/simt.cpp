// The scheduler of the host SIMT layer: runs the threads of a block in a chosen order, each until it meets
// others, and completes the meetings. Never compiled with a sanitizer: what it reads and writes for the
// threads is no access of theirs; the order that a meeting gives to memory is told to ThreadSanitizer
// explicitly.
#include "simt.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "simt_fiber.h"
#include "simt_launch.h"

#if defined(PROFKIT_UNDER_TSAN)
#include <sanitizer/tsan_interface.h>
#define PROFKIT_RELEASE(address) __tsan_release(address)
#define PROFKIT_ACQUIRE(address) __tsan_acquire(address)
extern "C" void AnnotateIgnoreWritesBegin(const char* file, int line);
extern "C" void AnnotateIgnoreWritesEnd(const char* file, int line);
#else
#define PROFKIT_RELEASE(address) static_cast<void>(address)
#define PROFKIT_ACQUIRE(address) static_cast<void>(address)
#endif

namespace simt {

const Place* current = nullptr;

namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr unsigned kMostThreads = 1024;
constexpr int kWarp = 32;
constexpr size_t kMostStaticShared = 48 * 1024;
// What one fiber does is in order for ThreadSanitizer. Neighbouring blocks have other fibers, so that threads
// with the same index in both can race as they do on a GPU.
#if defined(PROFKIT_UNDER_TSAN)
constexpr unsigned kFiberSets = 3;
#else
constexpr unsigned kFiberSets = 1;
#endif

enum class State { ready, at_barrier, in_warp, done };

struct PendingCopy {
  void* shared;
  const void* global;
  int bytes;
  bool is_inside;
};

struct Thread {
  Place place;
  State state = State::done;
  Site site{};
  // Of a warp operation:
  WarpOperation operation{};
  unsigned mask = 0;
  uint64_t value = 0;
  int source = 0;
  void* mine = nullptr;
  void (*together)(void* const*) = nullptr;
  std::vector<std::vector<PendingCopy>> copies{1};  // groups; the last one is open
};

// Two objects in turn: with one, the release of a fast thread's next meeting would hide a race of this one.
struct Meeting {
  char sync[2] = {};
  int turn = 0;
};

std::string text(Site site) {
  const char* const name = std::strrchr(site.file, '/');
  return std::string(name ? name + 1 : site.file) + ":" + std::to_string(site.line);
}

std::string text(const uint3& at) {
  return "(" + std::to_string(at.x) + ", " + std::to_string(at.y) + ", " + std::to_string(at.z) + ")";
}

class Block {
 public:
  void run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Body body, void* context);

  void barrier(Site site) {
    wait(State::at_barrier, site);
    PROFKIT_ACQUIRE(&barrier_.sync[barrier_.turn ^ 1]);
  }

  void meet_warp(WarpOperation operation, unsigned mask, Site site) {
    Thread& me = *now_;
    me.operation = operation;
    me.mask = mask;
    const int lane = static_cast<int>(me_index() % kWarp);
    if (!(mask >> lane & 1u)) {
      fail("warp operation at " + text(site) + ": the mask does not name lane " + std::to_string(lane) +
           ", which takes part");
    }
    Meeting& meeting = warps_[me_index() / kWarp];
    if (operation == WarpOperation::sync) PROFKIT_RELEASE(&meeting.sync[meeting.turn]);
    const int turn = meeting.turn;
    wait(State::in_warp, site);
    if (operation == WarpOperation::sync) PROFKIT_ACQUIRE(&meeting.sync[turn]);
  }

  Thread& me() { return *now_; }
  unsigned me_index() const { return static_cast<unsigned>(now_ - threads_.data()); }
  void* shared(const void* place, size_t bytes);
  void* dynamic_shared() { return dynamic_.get(); }
  [[noreturn]] void fail(const std::string& message);
  void set_order(Order order, uint64_t seed) {
    order_ = order;
    random_.seed(seed);
  }

 private:
  void wait(State state, Site site) {
    if (state == State::at_barrier) PROFKIT_RELEASE(&barrier_.sync[barrier_.turn]);
    now_->state = state;
    now_->site = site;
    Thread* const me = now_;
    scheduler_.resume(fiber_of(me_index()));
    now_ = me;
    current = &me->place;
  }

  static void thread_body(void* self) {
    Block& block = *static_cast<Block*>(self);
    Thread* const me = block.now_;
    PROFKIT_ACQUIRE(&block.launch_begin_);
    block.body_(block.context_);
    block.now_ = me;
    me->state = State::done;
    if (me->copies.size() > 1 || !me->copies.back().empty()) {
      block.failure_ =
          "thread " + text(me->place.thread) + " ended with asynchronous copies that it never waited for";
    }
    PROFKIT_RELEASE(&block.launch_end_);
    block.scheduler_.resume(block.fiber_of(block.me_index()));
    __builtin_trap();
  }

  Fiber& fiber_of(unsigned thread) { return *fibers_[fiber_set_ * count_ + thread]; }

  void run_one(uint3 at);
  void forget_shared();
  bool complete_warps();
  bool complete_warp(unsigned warp);
  bool complete_barrier();
  void exchange(unsigned first, unsigned mask, WarpOperation operation);
  [[noreturn]] void report_deadlock();
  std::vector<unsigned> next_order();

  dim3 grid_, size_;
  unsigned count_ = 0;
  size_t dynamic_bytes_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  Order order_ = Order::ascending;
  std::mt19937_64 random_{1};
  std::vector<Thread> threads_ = std::vector<Thread>(kMostThreads);
  std::vector<std::unique_ptr<Fiber>> fibers_;
  unsigned fiber_set_ = 0;
  Fiber scheduler_;
  Thread* now_ = nullptr;
  std::string failure_;
  // Two objects: blocks of one launch must not be ordered among each other, as they are not on a GPU.
  char launch_begin_ = 0, launch_end_ = 0;
  Meeting barrier_;
  Meeting warps_[kMostThreads / kWarp];
  std::vector<std::pair<const void*, std::unique_ptr<char[]>>> shared_;
  size_t shared_bytes_ = 0;
  std::unique_ptr<char[]> dynamic_;
};

// While one lives, allocating and freeing memory is no access: who allocates a block's memory is chance.
class NoAccess {
 public:
#if defined(PROFKIT_UNDER_TSAN)
  NoAccess() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
  ~NoAccess() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
#else
  NoAccess() {}
#endif
};

// Written by hand: a memset would count as an access of the thread that runs.
std::unique_ptr<char[]> filled_with_nan(size_t bytes) {
  const NoAccess no_access;
  std::unique_ptr<char[]> memory(new char[std::max<size_t>(bytes, 1)]);
  auto* const start = reinterpret_cast<volatile char*>(memory.get());
  for (size_t i = 0; i < bytes; ++i) start[i] = static_cast<char>(0xff);
  return memory;
}

void* Block::shared(const void* place, size_t bytes) {
  for (auto& [known, memory] : shared_) {
    if (known == place) return memory.get();
  }
  shared_bytes_ += bytes;
  if (shared_bytes_ > kMostStaticShared) {
    fail("static shared memory of " + std::to_string(shared_bytes_) + " bytes; a block can have 49152");
  }
  shared_.emplace_back(place, filled_with_nan(bytes));
  return shared_.back().second.get();
}

// The stacks of the block's other threads are given up as they are: kernels hold nothing that must be
// destroyed.
void Block::fail(const std::string& message) {
  failure_ = message + " (block " + text(now_->place.block) + ", thread " + text(now_->place.thread) + ")";
  now_->state = State::done;
  scheduler_.resume(fiber_of(me_index()));
  __builtin_trap();
}

std::vector<unsigned> Block::next_order() {
  std::vector<unsigned> order(count_);
  for (unsigned i = 0; i < count_; ++i) order[i] = order_ == Order::descending ? count_ - 1 - i : i;
  if (order_ == Order::random) std::shuffle(order.begin(), order.end(), random_);
  return order;
}

void Block::exchange(unsigned first, unsigned mask, WarpOperation operation) {
  uint64_t values[kWarp] = {};
  void* pointers[kWarp] = {};
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    const Thread& thread = threads_[first + lane];
    values[lane] = thread.value;
    pointers[lane] = thread.mine;
  }
  if (operation == WarpOperation::collective) {
    const auto lowest = static_cast<unsigned>(__builtin_ctz(mask));
    threads_[first + lowest].together(pointers);
  }
  for (unsigned lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1u)) continue;
    Thread& thread = threads_[first + lane];
    if (operation == WarpOperation::shuffle) {
      if (thread.source < 0 || thread.source >= kWarp || !(mask >> thread.source & 1u)) {
        failure_ = "shuffle at " + text(thread.site) + ": lane " + std::to_string(lane) + " reads lane " +
                   std::to_string(thread.source) + ", which the mask does not name";
        return;
      }
      thread.value = values[thread.source];
    }
  }
}

// Completes one group of lanes that all wait in the same operation; false when there is none.
bool Block::complete_warp(unsigned warp) {
  const unsigned first = warp * kWarp;
  for (unsigned lane = 0; lane < kWarp && first + lane < count_; ++lane) {
    const Thread& leader = threads_[first + lane];
    if (leader.state != State::in_warp) continue;
    bool all_here = true;
    for (unsigned other = 0; other < kWarp; ++other) {
      if (!(leader.mask >> other & 1u)) continue;
      if (first + other >= count_) {
        failure_ = "warp operation at " + text(leader.site) + ": the mask names lane " +
                   std::to_string(other) + ", outside the block of " + std::to_string(count_) + " threads";
        return false;
      }
      const Thread& thread = threads_[first + other];
      if (thread.state == State::done) {
        failure_ = "warp operation at " + text(leader.site) + ": the mask names lane " +
                   std::to_string(other) + ", which has exited";
        return false;
      }
      const bool is_same = thread.state == State::in_warp && thread.operation == leader.operation &&
                           thread.mask == leader.mask && thread.site.line == leader.site.line &&
                           thread.site.file == leader.site.file;
      all_here = all_here && is_same;
    }
    if (!all_here) continue;
    const unsigned mask = leader.mask;
    if (leader.operation == WarpOperation::collective && mask != 0xffffffffu) {
      failure_ = "matrix operation at " + text(leader.site) + " by fewer than 32 lanes";
      return false;
    }
    exchange(first, mask, leader.operation);
    if (!failure_.empty()) return false;
    if (leader.operation == WarpOperation::sync) warps_[warp].turn ^= 1;
    for (unsigned other = 0; other < kWarp; ++other) {
      if (mask >> other & 1u) threads_[first + other].state = State::ready;
    }
    return true;
  }
  return false;
}

bool Block::complete_warps() {
  bool has_progress = false;
  for (unsigned warp = 0; warp * kWarp < count_; ++warp) {
    while (complete_warp(warp)) has_progress = true;
    if (!failure_.empty()) return false;
  }
  return has_progress;
}

bool Block::complete_barrier() {
  const Thread* first = nullptr;
  for (unsigned i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == State::done) continue;
    if (thread.state != State::at_barrier) return false;
    if (first == nullptr) first = &thread;
    if (thread.site.line != first->site.line || thread.site.file != first->site.file) {
      failure_ = "divergent barrier: thread " + text(first->place.thread) + " waits at " + text(first->site) +
                 ", thread " + text(thread.place.thread) + " at " + text(thread.site);
      return false;
    }
  }
  if (first == nullptr) return false;
  for (unsigned i = 0; i < count_; ++i) {
    if (threads_[i].state == State::done) {
      failure_ = "divergent barrier at " + text(first->site) + ": thread " + text(threads_[i].place.thread) +
                 " has exited and never comes";
      return false;
    }
    threads_[i].state = State::ready;
  }
  barrier_.turn ^= 1;
  return true;
}

void Block::report_deadlock() {
  std::string where;
  for (unsigned i = 0, shown = 0; i < count_ && shown < 4; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == State::done) continue;
    where += (shown++ ? "; thread " : " thread ") + text(thread.place.thread) +
             (thread.state == State::at_barrier ? " at the barrier " : " in the warp operation ") +
             text(thread.site);
  }
  throw Error("deadlock:" + where);
}

void Block::run_one(uint3 at) {
  barrier_.turn = 0;
  fiber_set_ = (at.x + at.y + at.z) % kFiberSets;
  for (unsigned i = 0; i < count_; ++i) {
    Thread& thread = threads_[i];
    thread.place = Place{{i % size_.x, i / size_.x % size_.y, i / (size_.x * size_.y)}, at, size_, grid_};
    thread.state = State::ready;
    thread.copies.assign(1, {});
    fiber_of(i).begin(thread_body, this);
  }
  forget_shared();
  dynamic_ = filled_with_nan(dynamic_bytes_);
  for (;;) {
    bool is_anyone_left = false, has_progress = false;
    for (const unsigned i : next_order()) {
      if (threads_[i].state == State::done) continue;
      is_anyone_left = true;
      if (threads_[i].state != State::ready) continue;
      now_ = &threads_[i];
      current = &now_->place;
      has_progress = true;
      fiber_of(i).resume(scheduler_);
      if (!failure_.empty()) throw Error(std::exchange(failure_, {}));
    }
    if (!is_anyone_left) return;
    has_progress = complete_warps() || has_progress;
    if (failure_.empty()) has_progress = complete_barrier() || has_progress;
    if (!failure_.empty()) throw Error(std::exchange(failure_, {}));
    if (!has_progress) report_deadlock();
  }
}

void Block::run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Body body, void* context) {
  const uint64_t count = uint64_t{block.x} * block.y * block.z;
  if (count == 0 || count > kMostThreads || block.z > 64) {
    throw Error("invalid configuration: a block of " + std::to_string(count) + " threads");
  }
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 2147483647u || grid.y > 65535u ||
      grid.z > 65535u) {
    throw Error("invalid configuration: a grid of " + std::to_string(grid.x) + " x " +
                std::to_string(grid.y) + " x " + std::to_string(grid.z) + " blocks");
  }
  grid_ = grid;
  size_ = block;
  count_ = static_cast<unsigned>(count);
  dynamic_bytes_ = dynamic_shared_bytes;
  body_ = body;
  context_ = context;
  while (fibers_.size() < kFiberSets * count_) fibers_.push_back(std::make_unique<Fiber>(kStackBytes));
  PROFKIT_RELEASE(&launch_begin_);
  const uint64_t blocks = uint64_t{grid.x} * grid.y * grid.z;
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t turn = order_ == Order::descending ? blocks - 1 - i : i;
    run_one({static_cast<unsigned>(turn % grid.x), static_cast<unsigned>(turn / grid.x % grid.y),
             static_cast<unsigned>(turn / grid.x / grid.y)});
  }
  PROFKIT_ACQUIRE(&launch_end_);
  forget_shared();
}

void Block::forget_shared() {
  const NoAccess no_access;
  shared_.clear();
  shared_bytes_ = 0;
  dynamic_.reset();
}

Block& the_block() {
  static Block block;
  return block;
}

std::map<std::string, Binder>& enrolled() {
  static std::map<std::string, Binder> kernels;
  return kernels;
}

void copy_now(const PendingCopy& copy) {
  if (copy.is_inside) {
    std::memcpy(copy.shared, copy.global, static_cast<size_t>(copy.bytes));
  } else {
    std::memset(copy.shared, 0, static_cast<size_t>(copy.bytes));
  }
}

}  // namespace

void set_order(Order order, uint64_t seed) { the_block().set_order(order, seed); }

void run(dim3 grid, dim3 block, size_t dynamic_shared_bytes, Body body, void* context) {
  the_block().run(grid, block, dynamic_shared_bytes, body, context);
}

void fail(const std::string& message) { the_block().fail(message); }
void* shared(const void* place, size_t bytes) { return the_block().shared(place, bytes); }
void* dynamic_shared() { return the_block().dynamic_shared(); }
void barrier(Site site) { the_block().barrier(site); }
void sync_warp(unsigned mask, Site site) { the_block().meet_warp(WarpOperation::sync, mask, site); }

uint64_t shuffle(unsigned mask, uint64_t value, int source_lane, Site site) {
  Thread& me = the_block().me();
  me.value = value;
  me.source = source_lane;
  the_block().meet_warp(WarpOperation::shuffle, mask, site);
  return me.value;
}

void collective(void* mine, void (*together)(void* const*), Site site) {
  Thread& me = the_block().me();
  me.mine = mine;
  me.together = together;
  the_block().meet_warp(WarpOperation::collective, 0xffffffffu, site);
}

void copy_async(void* shared, const void* global, int bytes, bool is_inside) {
  const auto alignment = static_cast<uintptr_t>(bytes);
  if (reinterpret_cast<uintptr_t>(shared) % alignment || reinterpret_cast<uintptr_t>(global) % alignment) {
    the_block().fail("an asynchronous copy of " + std::to_string(bytes) + " bytes is not aligned to as many");
  }
  // On a GPU the bytes may arrive at any time from here on: who still reads the old ones has a race.
  std::memset(shared, 0xff, static_cast<size_t>(bytes));
  the_block().me().copies.back().push_back({shared, global, bytes, is_inside});
}

void copy_async_commit() { the_block().me().copies.emplace_back(); }

void copy_async_wait(int pending) {
  auto& groups = the_block().me().copies;
  while (static_cast<int>(groups.size()) - 1 > pending) {
    for (const PendingCopy& copy : groups.front()) copy_now(copy);
    groups.erase(groups.begin());
  }
}

void fill_zero(void* target, size_t bytes) { std::memset(target, 0, bytes); }

bool enrol(const void* kernel, Binder binder) {
  Dl_info info{};
  if (dladdr(kernel, &info) != 0 && info.dli_sname != nullptr) enrolled().emplace(info.dli_sname, binder);
  return true;
}

Binder binder_of(const char* mangled_name) {
  const auto found = enrolled().find(mangled_name);
  return found == enrolled().end() ? nullptr : found->second;
}

}  // namespace simt
