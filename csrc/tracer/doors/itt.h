// The ITT door, as the rest of the tracer sees it. Programs enter through __itt_api_init.
#pragma once

namespace profkit::tracer {

// At least one module of the process has this library as its ITT collector.
bool itt_door_is_open();

}  // namespace profkit::tracer
