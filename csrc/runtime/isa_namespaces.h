// Declarations of what is compiled once per instruction set, each time in the namespace of the set.
#pragma once

#define PROFKIT_IN_EVERY_ISA(...) \
  namespace generic {             \
  __VA_ARGS__                     \
  }                               \
  namespace avx2 {                \
  __VA_ARGS__                     \
  }                               \
  namespace avx512 {              \
  __VA_ARGS__                     \
  }                               \
  namespace neon {                \
  __VA_ARGS__                     \
  }
