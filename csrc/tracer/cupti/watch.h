// Whether CUPTI still delivers its records to us. Any tool in the process may register its own buffers
// (torch.profiler does): CUPTI does not report it, and records stop. But a subscriber gets a callback for
// every synchronisation with the GPU; each is part of a CUDA call, and that call must produce a record.
#pragma once

#include <atomic>
#include <cstdint>

namespace profkit::tracer {

extern std::atomic<uint64_t> cupti_synchronisations;  // callbacks from CUPTI
extern std::atomic<uint64_t> cupti_call_records;      // received

// A cupti::Callback for the domain of synchronisations.
void count_synchronisation(void* user_data, uint32_t domain, uint32_t callback_id, const void* data);
// After a flush: if records of calls came with it, all synchronisations so far count as recorded.
void account_for_synchronisations();
// After a flush that left nothing behind in CUPTI. `before`: the synchronisations when it began. True when
// some of them turn out to have no record.
bool find_unrecorded_synchronisations(uint64_t before);
uint64_t unrecorded_synchronisations();
// A capture begins.
void reset_cupti_watch();

}  // namespace profkit::tracer
