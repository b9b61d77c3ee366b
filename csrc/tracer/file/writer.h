// The writer: a thread that appends what the others recorded, every few milliseconds. Its work can also be
// done by any thread that must not wait for it (flush, exit, exec).
#pragma once

#include <cstdint>

namespace profkit::tracer {

// This many full chunks wake the writer early.
constexpr uint32_t kFullChunksToWake = 8;

// nullptr on success, otherwise why not. The file is open afterwards, with the process's first blocks.
const char* open_writer(const char* path, uint32_t epoch);
// In a fork child: the same file, another process.
const char* open_writer_in_child(uint32_t epoch);
const char* start_writer_thread();
// Writes all that was published.
void write_now();
// Writes all and the last block. The file stays open: the process may continue after a failed exec.
void write_end();
void retract_end();
void close_writer();
void wake_writer();
void reset_writer_lock();  // in a fork child

const char* writer_path();

}  // namespace profkit::tracer
