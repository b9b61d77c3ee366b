// Signals that end a process by default (multiprocessing ends its workers so): what was recorded goes to the
// file first. Programs see nothing of it: where the library's handler stands they find SIG_DFL.
#pragma once

namespace profkit::tracer {

// For SIGTERM, SIGINT and SIGHUP where they have their default action. Only when the library was preloaded:
// otherwise programs would see the handler.
void watch_fatal_signals();

}  // namespace profkit::tracer
