// Compares the callbacks from CUPTI with its records.
#include "tracer/cupti/watch.h"

#include "tracer/core/recorder.h"

namespace profkit::tracer {

std::atomic<uint64_t> cupti_synchronisations{0};
std::atomic<uint64_t> cupti_call_records{0};

namespace {

// This many threads may be between the end of a synchronisation and the record of its call.
constexpr uint64_t kTolerated = 3;

std::atomic<uint64_t> accounted_records{0};
std::atomic<uint64_t> accounted_synchronisations{0};
std::atomic<uint64_t> unrecorded{0};

}  // namespace

void count_synchronisation(void*, uint32_t, uint32_t, const void*) {
  if (thread_state.quiet != 0) return;  // from our own flush: not a call of the program
  cupti_synchronisations.fetch_add(1, std::memory_order_relaxed);
}

void account_for_synchronisations() {
  const uint64_t records = cupti_call_records.load();
  if (accounted_records.exchange(records) != records) {
    accounted_synchronisations.store(cupti_synchronisations.load());
  }
}

bool find_unrecorded_synchronisations(uint64_t before) {
  account_for_synchronisations();
  const uint64_t accounted = accounted_synchronisations.load();
  const uint64_t missing = before > accounted ? before - accounted : 0;
  if (missing <= kTolerated) return false;
  return unrecorded.exchange(missing) != missing;
}

uint64_t unrecorded_synchronisations() { return unrecorded.load(); }

void reset_cupti_watch() {
  accounted_records.store(cupti_call_records.load());
  accounted_synchronisations.store(cupti_synchronisations.load());
  unrecorded.store(0);
}

}  // namespace profkit::tracer
