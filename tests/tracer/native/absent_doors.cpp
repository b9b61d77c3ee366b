// Stands in for the doors where the recorder is tested without them: a sanitizer brings its own malloc.
#include "tracer/cupti/door.h"
#include "tracer/cupti/flusher.h"
#include "tracer/cupti/library.h"
#include "tracer/doors/open.h"

namespace profkit::tracer {

bool allocations_are_interposed() { return false; }
bool cupti_door_is_open() { return false; }
void examine_cupti(const char*, profkit_cupti_findings& findings) { findings = {}; }
bool cupti_flusher_runs() { return false; }
uint32_t cupti_status_version() { return 0; }
void get_cupti_status(CuptiStatus& status) { status = {}; }
void reset_cupti_status() {}
void open_cupti_door_if_driver_is_here() {}
void close_cupti_door() {}
bool flush_cupti(CuptiFlush) { return true; }
void forget_cupti_in_child() {}
bool itt_door_is_open() { return false; }
bool nvtx_door_is_open() { return false; }

}  // namespace profkit::tracer
