// A few hundred characters can demangle to more text than there is memory, and captures are untrusted input:
// hence a demangler that can be aborted when the text is too long, which abi::__cxa_demangle cannot.
#include "tracer/core/demangling.h"

#include <csetjmp>
#include <cstring>

// In libstdc++'s static library only; the link option -u brings it in. Weak: tests link another one.
extern "C" __attribute__((weak)) int __gcclibcxx_demangle_callback(const char* mangled,
                                                                   void (*take)(const char*, size_t, void*),
                                                                   void* to);

namespace profkit::tracer {
namespace {

struct DemangledText {
  char* bytes;
  size_t used, capacity;
  std::jmp_buf too_long;
};

void take(const char* part, size_t length, void* to) {
  DemangledText& text = *static_cast<DemangledText*>(to);
  // Over frames of C alone, which own nothing.
  if (length > text.capacity - text.used) std::longjmp(text.too_long, 1);
  std::memcpy(text.bytes + text.used, part, length);
  text.used += length;
}

}  // namespace

size_t demangle(const char* name, char* bytes, size_t capacity) {
  if (__gcclibcxx_demangle_callback == nullptr || std::strncmp(name, "_Z", 2) != 0) return 0;
  DemangledText text{bytes, 0, capacity, {}};
  if (setjmp(text.too_long) != 0) return 0;
  return __gcclibcxx_demangle_callback(name, take, &text) == 0 ? text.used : 0;
}

}  // namespace profkit::tracer
