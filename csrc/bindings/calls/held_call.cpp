// Loops of calls, snapshots of results, changes of inputs.
#include "bindings/calls/held_call.h"

#include <fcntl.h>
#include <pybind11/numpy.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <utility>

namespace py = pybind11;

namespace profkit {
namespace {

constexpr size_t kProbes = 64;
constexpr size_t kHeldResults = 3;
constexpr int64_t kSlowCallNs = 250'000'000;
constexpr size_t kPageBytes = 4096, kCacheLineBytes = 64;
constexpr int64_t kMostPokes = 4096, kMostPokesPerCall = 64;
// Of a result: below, reading it takes no time that matters; above, other pages are as slow as its own.
constexpr size_t kLeastRead = 16 * kPageBytes, kMostOwnPages = 1024 * kPageBytes;

ArrayView view_of(const py::object& array) {
  const auto* proxy = py::detail::array_proxy(array.ptr());
  ArrayView view;
  view.data = proxy->data;
  view.item_bytes = static_cast<size_t>(py::reinterpret_borrow<py::dtype>(proxy->descr).itemsize());
  for (int i = 0; i < proxy->nd; ++i) {
    view.shape.push_back(proxy->dimensions[i]);
    view.strides.push_back(proxy->strides[i]);
  }
  return view;
}

void write_file(const std::string& path, const std::vector<char>& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
  size_t done = 0;
  while (file >= 0 && done < bytes.size()) {
    const ssize_t written = write(file, bytes.data() + done, bytes.size() - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  if (file >= 0) ::close(file);
  if (done < bytes.size()) throw CheckFailure{"its result could not be written for the check", "crashed"};
}

// Elements with other contents, as long as it lives.
class Changes {
 public:
  // The memory for so many is there from the beginning.
  explicit Changes(size_t most) : old_(most) {}
  ~Changes() {
    for (size_t i = count_; i-- > 0;) std::memcpy(old_[i].place, &old_[i].bits, old_[i].bytes);
  }
  Changes(const Changes&) = delete;
  Changes& operator=(const Changes&) = delete;

  void write(const ArrayView& view, size_t offset_bytes, uint64_t bits) {
    if (count_ == old_.size() || offset_bytes + view.item_bytes > view.bytes()) {
      throw CheckFailure{"no such element"};
    }
    Old& old = old_[count_++];
    old = {view.data + offset_bytes, view.item_bytes, 0};
    std::memcpy(&old.bits, old.place, old.bytes);
    std::memcpy(old.place, &bits, old.bytes);
  }

 private:
  struct Old {
    char* place;
    size_t bytes;
    uint64_t bits;
  };
  std::vector<Old> old_;
  size_t count_ = 0;
};

// The contents of inputs, given back at the end.
class Kept {
 public:
  Kept(const std::vector<ArrayView>& inputs, const std::vector<size_t>& which) {
    for (size_t input : which) {
      if (input >= inputs.size()) throw CheckFailure{"no such input"};
      const ArrayView& view = inputs[input];
      kept_.push_back({view, std::vector<char>(view.data, view.data + view.bytes())});
    }
  }
  ~Kept() { restore(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;

  void restore() const {
    for (const Copy& copy : kept_) std::memcpy(copy.view.data, copy.bytes.data(), copy.bytes.size());
  }
  std::vector<std::vector<char>> bytes() const {
    std::vector<std::vector<char>> all;
    for (const Copy& copy : kept_) all.push_back(copy.bytes);
    return all;
  }
  void write(const std::vector<std::vector<char>>& contents) const {
    for (size_t i = 0; i < kept_.size(); ++i) {
      std::memcpy(kept_[i].view.data, contents[i].data(), contents[i].size());
    }
  }

 private:
  struct Copy {
    ArrayView view;
    std::vector<char> bytes;
  };
  std::vector<Copy> kept_;
};

int64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void read_pages(const volatile char* memory, size_t bytes, size_t period) {
  for (size_t at = 0; at < bytes; at += kPageBytes) static_cast<void>(memory[at % period]);
}

// A byte of each page: memory can be filled when it is read, by whoever is told of a fault. Not of each
// element where a view is not dense: that would take longer than an honest call.
void touch(const ArrayView& view) {
  const size_t count = view.count(), bytes = view.bytes();
  if (count == 0) return;
  if (view.extent() == bytes) {
    const volatile char* piece = view.lowest();
    read_pages(piece, bytes, bytes);
    static_cast<void>(piece[bytes - 1]);
    return;
  }
  const auto read = [&view](size_t index) {
    const volatile char* element = view.at(index);
    static_cast<void>(element[0]);
    static_cast<void>(element[view.item_bytes - 1]);
  };
  const size_t row = static_cast<size_t>(view.shape.back());
  const size_t stride = std::max<size_t>(1, static_cast<size_t>(std::abs(view.strides.back())));
  const size_t step = std::max<size_t>(1, kPageBytes / stride);
  for (size_t first = 0; first < count; first += row) {
    for (size_t i = 0; i < row; i += step) read(first + i);
    read(first + row - 1);
  }
}

Element element_of(const OutputForm& form) {
  if (form.item_bytes == 8) return Element::kFloat64;
  if (form.item_bytes == 4) return Element::kFloat32;
  return form.type_number < 0 ? Element::kBfloat16 : Element::kFloat16;
}

}  // namespace

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

int64_t process_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

size_t ArrayView::count() const {
  return std::accumulate(shape.begin(), shape.end(), size_t{1}, [](size_t product, int64_t extent) {
    return product * static_cast<size_t>(extent);
  });
}

char* ArrayView::at(size_t index) const {
  char* place = data;
  for (size_t i = shape.size(); i-- > 0;) {
    const size_t extent = static_cast<size_t>(shape[i]);
    place += static_cast<int64_t>(index % extent) * strides[i];
    index /= extent;
  }
  return place;
}

size_t ArrayView::run() const {
  size_t length = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    if (strides[i] != static_cast<int64_t>(length * item_bytes)) break;
    length *= static_cast<size_t>(shape[i]);
  }
  return length;
}

char* ArrayView::lowest() const {
  char* place = data;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (strides[i] < 0) place += (shape[i] - 1) * strides[i];
  }
  return place;
}

size_t ArrayView::extent() const {
  size_t reach = item_bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    reach += static_cast<size_t>((shape[i] - 1) * std::abs(strides[i]));
  }
  return reach;
}

bool ArrayView::is_shared() const {
  if (count() == 0) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] > 1 && strides[i] == 0) return true;
  }
  return extent() < bytes();
}

Bound::Bound()
    : array_type(py::detail::npy_api::get().PyArray_Type_),
      as_array(py::module_::import("numpy").attr("asarray")) {}

HeldCall::HeldCall(const Bound& bound, Reference call, bool materialises, std::vector<Reference> inputs,
                   OutputForm form)
    : bound_(bound),
      call_(std::move(call)),
      materialises_(materialises),
      inputs_(std::move(inputs)),
      form_(std::move(form)) {
  for (const Reference& input : inputs_) {
    if (PyObject_TypeCheck(input.ptr(), bound.array_type) == 0)
      throw CheckFailure{"an input is not an array"};
    input_views_.push_back(view_of(input));
    const ArrayView& view = input_views_.back();
    if (view.run() != view.count()) throw CheckFailure{"an input is not contiguous"};
  }
}

Reference HeldCall::once() const {
  PyObject* result = PyObject_CallNoArgs(call_.ptr());
  if (result == nullptr) throw py::error_already_set();
  if (materialises_ && PyObject_TypeCheck(result, bound_.array_type) == 0) {
    PyObject* array = PyObject_CallFunctionObjArgs(bound_.as_array.ptr(), result, nullptr);
    Py_DECREF(result);
    if (array == nullptr) throw py::error_already_set();
    result = array;
  }
  return py::reinterpret_steal<py::object>(result);
}

int64_t HeldCall::timed(int64_t calls) const {
  // Where the stack begins in its page is drawn once for a process. In one of its 64 cache lines a kernel's
  // stack and its arrays alias, which takes 7 % in the worst kernel seen: every timing has another place.
  return timed_below(calls, kCacheLineBytes * (mixed(timings_++) % (kPageBytes / kCacheLineBytes)));
}

int64_t HeldCall::timed_below(int64_t calls, size_t stack_bytes) const {
  volatile char* const taken = static_cast<volatile char*>(__builtin_alloca(stack_bytes + 1));
  taken[0] = 0;
  const int64_t begin = now_ns();
  for (int64_t i = 0; i < calls; ++i) once();
  return now_ns() - begin;
}

SampleTimes HeldCall::poked(int64_t calls, const PokeRequest& request) const {
  std::vector<const ArrayView*> views;
  for (size_t input : request.inputs) {
    if (input >= input_views_.size()) throw CheckFailure{"no such input"};
    if (input_views_[input].count() > 0) views.push_back(&input_views_[input]);
  }
  const int64_t fitting = std::max<int64_t>(1, std::min(kMostPokes / calls, kMostPokesPerCall));
  const size_t pokes = views.empty() ? 0 : static_cast<size_t>(fitting);
  const size_t pieces = views.empty() ? 1 : (pokes + views.size() - 1) / views.size();
  const Element element = element_of(form_);
  Changes changes(pokes * static_cast<size_t>(calls));
  uint64_t number = request.seed;
  int64_t reading_ns = 0;
  const int64_t processor_begin = process_ns(), begin = now_ns();
  for (int64_t i = 0; i < calls; ++i) {
    for (size_t poke = 0; poke < pokes; ++poke) {
      // One in each of so many equal pieces: no image, and no row, stays as it was.
      const ArrayView& view = *views[poke % views.size()];
      const size_t piece = poke / views.size();
      const size_t first = view.count() * piece / pieces, last = view.count() * (piece + 1) / pieces;
      const size_t index = first + mixed(++number) % std::max<size_t>(1, last - first);
      changes.write(view, index * view.item_bytes, content_bits(element, request.seed, number));
    }
    const Reference result = once();
    if (PyObject_TypeCheck(result.ptr(), bound_.array_type) != 0) {
      const ArrayView view = view_of(result);
      touch(view);
      reading_ns += reading_cost(view);
    }
  }
  const int64_t wall_ns = now_ns() - begin, processor_ns = process_ns() - processor_begin;
  return {std::max<int64_t>(1, wall_ns - reading_ns), std::max<int64_t>(1, processor_ns - reading_ns)};
}

int64_t HeldCall::reading_cost(const ArrayView& view) const {
  const size_t bytes = view.bytes();
  if (bytes < kLeastRead || view.extent() != bytes) return 0;
  const int64_t begin = now_ns();
  if (own_pages_.empty()) own_pages_.assign(std::min(bytes, kMostOwnPages), 1);
  const int64_t ready = now_ns();
  read_pages(own_pages_.data(), bytes, own_pages_.size());
  // This reading and the one of the result, which costs an honest call as much.
  return ready - begin + 2 * (now_ns() - ready);
}

bool HeldCall::is_output(const Reference& result) const {
  if (PyObject_TypeCheck(result.ptr(), bound_.array_type) == 0) return false;
  const auto* proxy = py::detail::array_proxy(result.ptr());
  const py::dtype type = py::reinterpret_borrow<py::dtype>(proxy->descr);
  const ArrayView view = view_of(result);
  // Types that packages add have numbers from 256 on.
  const bool is_type = form_.type_number < 0 ? type.num() >= 256 : type.num() == form_.type_number;
  return is_type && type.byteorder() != '>' && view.item_bytes == form_.item_bytes &&
         view.shape == form_.shape;
}

bool HeldCall::overlaps_inputs(const ArrayView& view) const {
  return std::any_of(input_views_.begin(), input_views_.end(), [&](const ArrayView& input) {
    return view.lowest() < input.data + input.bytes() && input.data < view.lowest() + view.extent();
  });
}

void HeldCall::require_own_memory(const ArrayView& view) const {
  if (view.is_shared()) {
    throw CheckFailure{"several elements of its result share one place in memory: they were not all written"};
  }
  if (view.count() > 0 && overlaps_inputs(view)) throw CheckFailure{"its result is memory of its inputs"};
}

bool HeldCall::spoil(const Reference& result) const {
  if (PyObject_TypeCheck(result.ptr(), bound_.array_type) == 0) return false;
  const ArrayView view = view_of(result);
  if (view.count() == 0 || overlaps_inputs(view)) return false;
  // Dense in some order of dimensions: one piece of memory. Otherwise what is between belongs to others.
  if (view.extent() == view.bytes()) return bound_.memory.spoil(view.lowest(), view.bytes());
  const size_t run = view.run();
  for (size_t i = 0; i < view.count(); i += run) {
    if (!bound_.memory.spoil(view.at(i), run * view.item_bytes)) return false;
  }
  return true;
}

bool HeldCall::is_reused(const Reference& first) const {
  std::vector<Reference> held = {first};
  const int64_t begin = now_ns();
  do {
    held.push_back(once());
    if (!is_output(held.back())) throw RefusedResult{held.back()};
    const ArrayView last = view_of(held.back());
    for (size_t i = 0; i + 1 < held.size(); ++i) {
      const ArrayView one = view_of(held[i]);
      if (one.lowest() < last.lowest() + last.extent() && last.lowest() < one.lowest() + one.extent()) {
        return true;
      }
    }
  } while (held.size() < kHeldResults && now_ns() - begin < kSlowCallNs);
  return false;
}

Snapshot HeldCall::keep(const Reference& result, uint64_t seed, const std::string& path) const {
  if (!is_output(result)) throw RefusedResult{result};
  const ArrayView view = view_of(result);
  require_own_memory(view);
  std::vector<char> bytes;
  if (view.count() > 0) {
    // A few elements at once, then all: work that continues elsewhere shows between the two.
    const size_t probes = std::min(kProbes, view.count());
    std::vector<uint64_t> numbers;
    std::vector<const char*> places;
    for (size_t i = 0; i < probes; ++i) {
      numbers.push_back(mixed(seed + i) % view.count());
      places.push_back(view.at(numbers.back()));
    }
    std::vector<char> probed(probes * view.item_bytes);
    bool is_read = ProcessMemory::read(places, view.item_bytes, probed.data());
    bytes.resize(view.bytes());
    const size_t run = view.run();
    if (run == view.count()) {
      is_read = is_read && ProcessMemory::read({view.data}, view.bytes(), bytes.data());
    } else {
      const size_t run_bytes = run * view.item_bytes;
      for (size_t i = 0; i * run < view.count(); ++i) {
        std::memcpy(bytes.data() + i * run_bytes, view.at(i * run), run_bytes);
      }
    }
    if (!is_read) throw CheckFailure{"the memory of its result cannot be read"};
    bytes.insert(bytes.end(), reinterpret_cast<const char*>(numbers.data()),
                 reinterpret_cast<const char*>(numbers.data() + probes));
    bytes.insert(bytes.end(), probed.begin(), probed.end());
  }
  write_file(path, bytes);
  Snapshot snapshot;
  snapshot.sum = contents_sum(seed, bytes.data(), bytes.size());
  return snapshot;
}

Snapshot HeldCall::check(const CheckRequest& request) const {
  Reference last;
  for (int64_t i = 0; i < request.before; ++i) {
    last.release().dec_ref();
    last = once();
  }
  const bool is_spoilt = request.spoils && last && spoil(last);
  last.release().dec_ref();
  Reference result;
  {
    Changes changes(request.pokes.size());
    for (const Poke& poke : request.pokes) {
      if (poke.input >= input_views_.size()) throw CheckFailure{"no such input"};
      changes.write(input_views_[poke.input], poke.offset_bytes, poke.bits);
    }
    result = once();
  }
  Snapshot snapshot = keep(result, request.seed, request.path);
  snapshot.is_spoilt = is_spoilt;
  return snapshot;
}

CallTimes HeldCall::audit(const AuditRequest& request, Snapshot& snapshot) const {
  const Kept kept(input_views_, request.inputs);
  const std::vector<std::vector<char>> own = kept.bytes();
  std::vector<std::vector<char>> contents = own;
  CallTimes times;
  const Element element = element_of(form_);
  for (int64_t number = 0; number < request.count; ++number) {
    // Whether they are written or not: on a busy machine, a call that comes later after the process was woken
    // more often falls where its share of the processor ends.
    for (size_t i = 0; i < contents.size(); ++i) {
      const uint64_t seed = mixed(mixed(request.check.seed + static_cast<uint64_t>(number)) + i);
      change_contents(element, request.change, seed, own[i].data(), contents[i].data(), own[i].size());
    }
    kept.restore();
    once();  // after the pause that contents take to make
    Reference last;
    const int64_t lead_processor_begin = process_ns(), lead_begin = now_ns();
    for (int64_t i = 0; i < request.before; ++i) {
      last.release().dec_ref();
      last = once();
    }
    times.lead_ns.push_back((now_ns() - lead_begin) / request.before);
    times.lead_processor_ns.push_back((process_ns() - lead_processor_begin) / request.before);
    if (request.check.spoils && last) spoil(last);
    last.release().dec_ref();
    kept.write(request.is_fresh ? contents : own);
    const int64_t processor_begin = process_ns(), begin = now_ns();
    const Reference result = once();
    if (PyObject_TypeCheck(result.ptr(), bound_.array_type) != 0) touch(view_of(result));
    times.wall_ns.push_back(now_ns() - begin);
    times.processor_ns.push_back(process_ns() - processor_begin);
    if (number + 1 == request.count && !request.check.path.empty()) {
      snapshot = keep(result, request.check.seed, request.check.path);
    }
  }
  return times;
}

std::vector<uint64_t> HeldCall::input_sums(uint64_t seed) const {
  std::vector<uint64_t> sums;
  for (const ArrayView& view : input_views_) sums.push_back(contents_sum(seed, view.data, view.bytes()));
  return sums;
}

}  // namespace profkit
