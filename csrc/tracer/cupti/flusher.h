// A thread that asks CUPTI for its records again and again: a long run stays bounded, a killed process loses
// little, and whoever must not wait for CUPTI for ever (exit, signal handlers) asks this thread instead.
#pragma once

#include <atomic>
#include <cstdint>

#include "tracer/cupti/library.h"

namespace profkit::tracer {

// Counts the buffers that came back: a flush that goes on is told from one that hangs.
extern std::atomic<uint64_t> cupti_buffers_completed;

// false: no thread could be made. `library` must stay.
bool start_cupti_flusher(const CuptiLibrary& library, uint32_t period_ms);
bool cupti_flusher_runs();
// What a flush brings out of CUPTI. Work that is still running comes without an end when it is forced out,
// and never again: only the last flush may ask for everything.
enum class CuptiFlush { finished_work, everything };
// Waits as long as buffers come back. False: CUPTI hangs, or there is no thread.
bool flush_through_flusher(CuptiFlush what);
// Returns when the thread is out of CUPTI, or hangs there.
void stop_cupti_flusher();
void forget_cupti_flusher();  // in a fork child

}  // namespace profkit::tracer
