// Whose wall clock: the spans of a network's steps in, nanoseconds per span and per step out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "captures/members.h"

namespace profkit::captures {

// Borrowed columns of the ranges and steps of a Capture, as profkit/capture/schema.py names them.
struct NetworkSpanView {
  const int8_t* level;
  const int32_t* step;
  const int32_t* thread;
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;
  int32_t threads;  // how many there are

  // What is wrong with the columns, or nothing.
  const char* check(size_t steps) const;
};

struct StepView {
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;

  // What is wrong, or nothing: steps must follow one another.
  const char* check() const;
};

// For every step, exactly: the wall_ns of its spans + runtime_ns + layer_ns + empty_ns = end_ns - start_ns.
struct StepShares {
  std::vector<int64_t> wall_ns;     // per span; operators and primitives only
  std::vector<int64_t> runtime_ns;  // per step: no operator ran, some thread was in the framework's own code
  std::vector<int64_t> layer_ns;    // per step: no operator, no such code, but a layer's Python code
  std::vector<int64_t> empty_ns;    // per step: nothing was open on any thread

  PROFKIT_MEMBERS(wall_ns, runtime_ns, layer_ns, empty_ns)
};

// An instant of a step belongs, on each thread, to the operator or primitive that was begun last and is still
// open; threads that have one share the instant equally. An operator counts in its own step only (`step`),
// cut to it; spans that are not operators count in every step that they overlap.
StepShares share_steps(const NetworkSpanView& spans, const StepView& steps);

}  // namespace profkit::captures
