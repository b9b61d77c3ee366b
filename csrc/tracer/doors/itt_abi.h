// The part of ITT's binary interface (version 3) that a collector meets: layouts, own declarations so that no
// Intel header is needed to build. tests/tracer/test_itt_abi.py compares them with the real headers.
#pragma once

#include <pthread.h>

#include <cstdint>

namespace profkit::tracer::itt {

// One function of the API: the program calls through *function.
struct ApiEntry {
  const char* name;  // "__itt_task_begin"...; the list ends with a null name
  void** function;
  void* initial;
  void* none;
  int32_t group;  // bits
};

// Handed to __itt_api_init by every module that uses ITT. Only the part up to `next` is the same in all
// versions 3.
struct Global {
  unsigned char magic[8];
  unsigned long version_major;
  unsigned long version_minor;
  unsigned long version_build;
  volatile long is_initialised;
  volatile long is_mutex_initialised;
  volatile long counter;
  pthread_mutex_t mutex;
  void* library;
  void* error_handler;
  const char** library_path;
  ApiEntry* api;
  Global* next;
};
constexpr unsigned char kMagic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};
constexpr unsigned long kVersion = 3;

struct Domain {
  volatile int flags;  // 0: calls in this domain do not reach the collector
  const char* name;
  const wchar_t* wide_name;
  int id;  // ours ("extra1"): the recorder's domain, 0 not known yet
  void* reserved;
  Domain* next;
};

struct StringHandle {
  const char* text;
  const wchar_t* wide_text;
  int id;  // ours ("extra1"): the recorder's string, 0 not known yet
  void* reserved;
  StringHandle* next;
};

struct Id {
  unsigned long long d1, d2, d3;
};

using Event = int;

}  // namespace profkit::tracer::itt
