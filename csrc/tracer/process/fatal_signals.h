// Signals that end a process by default (multiprocessing ends its workers with one): what was recorded is
// written first. The program does not see the handler: in its place it reads SIG_DFL.
#pragma once

namespace profkit::tracer {

// For SIGTERM, SIGINT and SIGHUP where they have their default action. Only when the library was preloaded:
// otherwise programs would see the handler.
void watch_fatal_signals();

}  // namespace profkit::tracer
