// Errors that cross into Python as profkit.errors types, and the one macro that adds file and line.
#pragma once

#include <stdexcept>
#include <string>

namespace profkit {

// The caller's arguments are refused: becomes profkit.errors.KernelError.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The kernel exists but does not offer these parameters: becomes profkit.errors.UnsupportedError.
struct UnsupportedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace profkit

// For what fails only when the machine or profkit itself is at fault; the message has the place in the
// source.
#define PROFKIT_CHECK(condition, message)                                                                    \
  do {                                                                                                       \
    if (!(condition))                                                                                        \
      throw ::profkit::KernelError(std::string(message) + " (" + __FILE__ + ":" + std::to_string(__LINE__) + \
                                   ")");                                                                     \
  } while (false)
