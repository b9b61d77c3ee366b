// The JSON text that describes a recording process.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "tracer/core/clock.h"
#include "tracer/core/session.h"
#include "tracer/cupti/door.h"
#include "tracer/file/utf8.h"

#ifndef PROFKIT_VERSION
#define PROFKIT_VERSION "unknown"
#endif

namespace profkit::tracer {
namespace {

constexpr size_t kMaxCommandBytes = 16 << 10;

// The layout of the file, for a program that has nothing but this text.
constexpr char kLayout[] =
    "blocks of 32-byte header {u32 magic 'PBK1', u32 crc32c of what follows, u32 type, u32 payload bytes, "
    "u64 "
    "capture, u64 process}; type 2 definitions, 3 thread, 4 events {u32 thread, u32 words, u64 first word, "
    "u64 "
    "written ticks, u64 words: bits 0-43 ticks, 44-59 argument, 60-63 kind}, 5 clock {u64 ticks, i64 ns, i64 "
    "uncertainty}, 6 samples, 7 overhead, 8 end, 16 what a GPU did; see docs/capture-format.md of profkit";

class JsonText {
 public:
  JsonText(char* text, size_t capacity) : text_(text), capacity_(capacity) {}
  void raw(const char* piece) {
    for (; *piece != '\0'; ++piece) put(*piece);
  }
  void number(const char* key, long long value) {
    char piece[96];
    std::snprintf(piece, sizeof(piece), "\"%s\":%lld,", key, value);
    raw(piece);
  }
  void quoted(const char* piece, size_t size) {
    put('"');
    for (size_t i = 0; i < size; ++i) escape(static_cast<unsigned char>(piece[i]));
    put('"');
  }
  void field(const char* key, const char* value) {
    quoted(key, std::strlen(key));
    put(':');
    quoted(value, std::strlen(value));
    put(',');
  }
  size_t size() const { return size_; }

 private:
  void put(char c) {
    if (size_ < capacity_) text_[size_++] = c;
  }
  void escape(unsigned char c) {
    if (c == '"' || c == '\\') {
      put('\\');
      put(static_cast<char>(c));
    } else if (c < 0x20 || c == 0x7F) {
      char piece[8];
      std::snprintf(piece, sizeof(piece), "\\u%04x", c);
      raw(piece);
    } else {
      put(static_cast<char>(c));
    }
  }

  char* text_;
  size_t capacity_;
  size_t size_ = 0;
};

// Replaces every byte that is not part of a well-formed UTF-8 sequence with '?'.
void replace_invalid_utf8(char* text, size_t size) {
  for (size_t i = 0; i < size;) {
    const size_t length = utf8_sequence_bytes({text + i, size - i});
    if (length == 0) text[i] = '?';
    i += length == 0 ? 1 : length;
  }
}

void add_command(JsonText& json) {
  static char command[kMaxCommandBytes];
  const int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  const ssize_t count = fd < 0 ? 0 : read(fd, command, sizeof(command));
  if (fd >= 0) close(fd);
  const size_t size = count > 0 ? static_cast<size_t>(count) : 0;
  replace_invalid_utf8(command, size);
  json.raw("\"command\":[");
  for (size_t at = 0; at < size;) {
    const size_t length = strnlen(command + at, size - at);
    if (at != 0) json.raw(",");
    json.quoted(command + at, length);
    at += length + 1;
  }
  json.raw("],");
}

// Nothing in a process that uses no GPU.
void add_cupti(JsonText& json) {
  static CuptiStatus status;
  get_cupti_status(status);
  if (status.state == CuptiState::closed) return;
  replace_invalid_utf8(status.library, std::strlen(status.library));
  replace_invalid_utf8(status.message, std::strlen(status.message));
  json.raw("\"cupti\":{");
  json.field("state", status.state == CuptiState::failed ? "failed" : "open");
  json.field("library", status.library);
  json.number("version", status.version);
  json.field("message", status.message);
  json.raw("\"records\":\"kernels, copies, sets, memory, calls\"},");
}

}  // namespace

size_t describe_process(char* text, size_t capacity) {
  JsonText json(text, capacity);
  const uint32_t doors = open_door_bits();
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  replace_invalid_utf8(host, std::strlen(host));
  json.raw("{");
  json.number("pid", getpid());
  json.number("parent_pid", getppid());
  add_command(json);
  json.field("host", host);
  json.field("clock", clock_is_tsc ? "tsc" : "monotonic");
  json.number("flush_ms", options().flush_ms);
  json.number("allocation_threshold", static_cast<long long>(options().allocation_threshold));
  json.number("buffer_mib", options().buffer_mib);
  json.raw(options().usage ? "\"usage\":true," : "\"usage\":false,");
  json.raw("\"doors\":[\"profkit\"");
  if (doors & 1) json.raw(",\"nvtx\"");
  if (doors & 2) json.raw(",\"itt\"");
  if (doors & 4) json.raw(",\"allocations\"");
  if (doors & 8) json.raw(",\"cupti\"");
  json.raw("],");
  add_cupti(json);
  json.field("profkit", PROFKIT_VERSION);
  json.raw("\"layout\":");
  json.quoted(kLayout, sizeof(kLayout) - 1);
  json.raw("}");
  while (json.size() % 8 != 0) json.raw(" ");  // blocks are padded with zeros, which JSON does not know
  return json.size();
}

}  // namespace profkit::tracer
