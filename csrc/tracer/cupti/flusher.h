// A thread that flushes CUPTI's records periodically: memory stays bounded in a long run, a killed process
// loses little, and code that must not block in CUPTI (exit, signal handlers) uses this thread instead.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/cupti/library.h"

namespace profkit::tracer {

// Counts the buffers that came back: distinguishes a flush in progress from one that hangs.
extern std::atomic<uint64_t> cupti_buffers_completed;

// false: no thread could be made. `library` must stay.
bool start_cupti_flusher(const CuptiLibrary& library, uint32_t period_ms);
bool cupti_flusher_runs();
// What a flush gets from CUPTI. A forced flush delivers running work without an end, and never again: only
// the last flush may request everything.
enum class CuptiFlush { finished_work, everything };
// Waits as long as buffers come back. False: CUPTI hangs, or there is no thread.
bool flush_through_flusher(CuptiFlush what);
// Returns when the thread is out of CUPTI, or hangs there.
void stop_cupti_flusher();
void forget_cupti_flusher();  // in a fork child

}  // namespace profkit::tracer
