// A prepared call and how it is made, timed and checked, beyond the reach of Python code that is imported
// later.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/calls/contents.h"
#include "bindings/calls/process_memory.h"

namespace profkit {

using Reference = pybind11::object;

int64_t now_ns();
// Of all threads of the process.
int64_t process_ns();

// Elements of an array as its object has them; no code of the object runs.
struct ArrayView {
  char* data = nullptr;
  size_t item_bytes = 0;
  std::vector<int64_t> shape, strides;

  size_t count() const;
  size_t bytes() const { return count() * item_bytes; }
  // Of one element, counted in the order of the shape.
  char* at(size_t index) const;
  // Longest runs of elements that follow each other in memory and in the order of the shape: elements each
  // has.
  size_t run() const;
  char* lowest() const;
  size_t extent() const;
  // Whether one place in memory is several elements.
  bool is_shared() const;
};

// What was bound before a user's code was imported.
struct Bound {
  PyTypeObject* array_type;
  Reference as_array;
  ProcessMemory memory;

  Bound();
};

struct OutputForm {
  int type_number = 0;  // NumPy's; -1 where types of users have changing ones
  size_t item_bytes = 0;
  std::vector<int64_t> shape;
};

// A change of one element of an input.
struct Poke {
  size_t input;
  size_t offset_bytes;
  uint64_t bits;
};

// What the parent learns of a checked call.
struct Snapshot {
  bool is_spoilt = false;
  uint64_t sum = 0;
};

struct CheckRequest {
  int64_t before = 1;
  bool spoils = false;
  uint64_t seed = 0;
  std::vector<Poke> pokes;
  std::string path;
};

struct AuditRequest {
  int64_t before = 1, count = 1;
  bool is_fresh = false;
  Change change = Change::kNew;
  std::vector<size_t> inputs;
  CheckRequest check;
};

// Which inputs change a little before each call, by which numbers.
struct PokeRequest {
  uint64_t seed = 0;
  std::vector<size_t> inputs;
};

struct SampleTimes {
  int64_t wall_ns = 0, processor_ns = 0;
};

// Of single calls, and of one of those in a row that led to each: by the clock on the wall, and of all
// threads of the process.
struct CallTimes {
  std::vector<int64_t> wall_ns, processor_ns, lead_ns, lead_processor_ns;
};

class HeldCall {
 public:
  // `materialises`: results may be anything that numpy.asarray takes; they are made arrays inside the timed
  // call.
  HeldCall(const Bound& bound, Reference call, bool materialises, std::vector<Reference> inputs,
           OutputForm form);

  // Nanoseconds of calls in a row; each result is dropped at once, as in a loop that uses it and continues.
  int64_t timed(int64_t calls) const;
  // The same of calls before each of which some elements all over the inputs get new values, and after each
  // of which the result is read: what is not computed in every call shows. Without what reading as many pages
  // of other memory takes.
  SampleTimes poked(int64_t calls, const PokeRequest& request) const;
  Reference once() const;
  bool materialises() const { return materialises_; }

  // Whether one of the next calls writes where an earlier result, which is still held, lies.
  bool is_reused(const Reference& first) const;
  // Keeps what the result is right now for the parent.
  Snapshot keep(const Reference& result, uint64_t seed, const std::string& path) const;
  // Some calls, then one that is checked; its input may have changed and the last output's memory is spoilt.
  Snapshot check(const CheckRequest& request) const;
  // Times of single calls, each after the inputs were written: with new contents, or with their own.
  CallTimes audit(const AuditRequest& request, Snapshot& snapshot) const;
  std::vector<uint64_t> input_sums(uint64_t seed) const;
  bool is_output(const Reference& result) const;

 private:
  // With so much of the stack in use.
  [[gnu::noinline]] int64_t timed_below(int64_t calls, size_t stack_bytes) const;
  // Of a result that is dense, and of the reading that finds it out.
  int64_t reading_cost(const ArrayView& view) const;
  bool spoil(const Reference& result) const;
  bool overlaps_inputs(const ArrayView& view) const;
  // Throws for an output that is not memory of its own: nobody has written all its elements.
  void require_own_memory(const ArrayView& view) const;

  const Bound& bound_;
  Reference call_;
  bool materialises_;
  std::vector<Reference> inputs_;
  std::vector<ArrayView> input_views_;
  OutputForm form_;
  mutable std::vector<char> own_pages_;
  mutable uint64_t timings_ = 0;
};

// A result that is not an output; the Python side's message is the reason.
struct RefusedResult {
  Reference result;
};

// A result that cannot be checked: the reason, and the status of its row.
struct CheckFailure {
  std::string reason;
  const char* status = "wrong";
};

}  // namespace profkit
