// The running capture, as the tracer's own parts see it (recorder.h has what the doors see).
#pragma once

#include <cstddef>
#include <cstdint>

#include "tracer/core/recorder.h"

namespace profkit::tracer {

// This process (and not a child of vfork() or a bare clone()) records.
bool session_is_ours();
// In a fork child, at its first event: a separate capture begins. false: it cannot.
bool start_in_child();

// Before the process ends or another program takes its place: everything goes to the file, with the last
// block. Nothing happens in a process that does not record.
void finish_process();
// The other program could not be started: this process continues.
void resume_process();

// JSON of the process block; returns its length, at most `capacity`.
size_t describe_process(char* text, size_t capacity);
// Bits of open doors, as in api.h.
uint32_t open_door_bits();

void before_fork();
void after_fork_in_parent();
void after_fork_in_child();

}  // namespace profkit::tracer
