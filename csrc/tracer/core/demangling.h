// Demangled names of kernels. Not part of recording: it is for the reader of captures, since only this
// library has the C++ library's demangler in a form that can be aborted.
#pragma once

#include <cstddef>

namespace profkit::tracer {

// "void gemm<128>(float*)" for "_Z4gemmILi128EEvPf": gives its length in `text`. 0 when the name is not a
// mangled one, or longer than `capacity`, or where there is no demangler.
size_t demangle(const char* name, char* text, size_t capacity);

}  // namespace profkit::tracer
