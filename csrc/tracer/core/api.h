/* The door of libprofkit_inject.so for profkit's own module (and any C program): a table of functions, found
   with dlsym("profkit_tracer"), so that nothing links against the library and it may be absent. */
#ifndef PROFKIT_TRACER_API_H
#define PROFKIT_TRACER_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PROFKIT_TRACER_API_VERSION 1

enum profkit_payload_type { /* as tracer/file/format.h PayloadType */
                            PROFKIT_PAYLOAD_INT64 = 1,
                            PROFKIT_PAYLOAD_UINT64 = 2,
                            PROFKIT_PAYLOAD_FLOAT64 = 3,
};

typedef struct profkit_cupti_findings {
  uint32_t version; /* as cuptiGetVersion gives it; 0 no library */
  uint32_t is_usable;
  char library[1024]; /* path */
  char reason[1400];  /* why it is not usable, and what to do */
} profkit_cupti_findings;

typedef struct profkit_tracer_api {
  uint32_t version;

  /* Not 0 while a capture runs: test this before anything below; all are safe to call when it is 0. */
  const uint32_t* recording;

  /* A name for ranges, for the life of the process. `category` may be NULL. Names are UTF-8 with a length. */
  uint32_t (*label)(const char* name, size_t name_bytes, const char* category, size_t category_bytes);

  /* A range of this thread's stack; the token is 0 when nothing was recorded. `end` with a token of another
     thread closes it there as a span; with 0 it does nothing. */
  uint64_t (*begin)(uint32_t label);
  uint64_t (*begin_with_payload)(uint32_t label, uint32_t payload_type, uint64_t payload_bits);
  void (*end)(uint64_t token);
  /* A range that is in no stack and may end on another thread: coroutines. */
  uint64_t (*span_begin)(uint32_t label, uint32_t payload_type, uint64_t payload_bits);
  void (*span_end)(uint64_t id);
  void (*mark)(uint32_t label, uint32_t payload_type, uint64_t payload_bits);

  /* NULL on success, else the reason. `options` as PROFKIT_TRACE_OPTIONS, may be NULL. */
  const char* (*start)(const char* path, const char* options);
  const char* (*stop)(void);
  void (*flush)(void);
  const char* (*capture_path)(void);
  /* Bits: 1 nvtx initialised through us, 2 itt, 4 allocations (the library was preloaded), 8 CUPTI. */
  uint32_t (*open_doors)(void);
  /* Records lost by this process since start. */
  uint64_t (*dropped)(void);
  /* Whether CUPTI could be used in this process. `wheels`: further libraries to look at, paths with a colon
     between them, may be NULL. One thread at a time. */
  void (*examine_cupti)(const char* wheels, profkit_cupti_findings* findings);
  /* Of the CUPTI door of the running capture: is_usable when it is open; the reason is empty while nothing
     in the process has used a GPU. */
  void (*cupti_status)(profkit_cupti_findings* status);
  /* A C++ name as people write it: its length in `text`, or 0 when it is not a name or too long. */
  size_t (*demangle)(const char* name, char* text, size_t capacity);
} profkit_tracer_api;

/* NULL when the library does not offer this version. */
const profkit_tracer_api* profkit_tracer(uint32_t version);

#ifdef __cplusplus
}
#endif
#endif
