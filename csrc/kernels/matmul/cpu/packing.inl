// Packing: a block of a matrix with any strides becomes panels that the register tile reads front to back.
// A panel holds `Panel` rows of A (or columns of B) side by side: [k][Panel]; the rest of the last is zero.
// Stores may run up to one vector past a panel, where the next panel follows: panels are packed in ascending
// order and every packed buffer ends with kPackSlack elements that hold nothing.
#pragma once

#include <string.h>

#include "kernels/cpu/simd.inl"

namespace profkit {
namespace PROFKIT_ISA {

constexpr int64_t kPackSlack = 64;

// A matrix somewhere in memory; `across` is the index that panels split (m of A, n of B), `along` is k.
template <class T>
struct Strided {
  const T* data;
  int64_t across_stride, along_stride;

  PROFKIT_INLINE const T* at(int64_t across, int64_t along) const {
    return data + across * across_stride + along * along_stride;
  }
};

// Lines are contiguous along k: read whole vectors along k and transpose them in registers.
template <class T, int Panel>
PROFKIT_INLINE void pack_transposed(T* to, const T* from, int64_t line_stride, int64_t lines, int64_t k) {
  constexpr int width = kWidth<T>;
  constexpr int chunks = (Panel + width - 1) / width;
  int64_t p = 0;
  for (; p + width <= k; p += width) {
    // Last chunk first: what it writes past its panel row belongs to chunks and rows written later.
    for (int chunk = chunks - 1; chunk >= 0; --chunk) {
      Vec<T> block[width];
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) {
        const int line = chunk * width + i;
        if (line >= lines || line >= Panel) {
          block[i] = Vec<T>{};
          continue;
        }
        // Lines may be a page apart, where the hardware prefetcher follows none of them.
        __builtin_prefetch(from + line * line_stride + p + 4 * width);
        block[i] = load(from + line * line_stride + p);
      }
      transpose<T>(block);
#pragma GCC unroll 16
      for (int i = 0; i < width; ++i) store(to + (p + i) * Panel + chunk * width, block[i]);
    }
  }
  for (; p < k; ++p) {
    for (int64_t line = 0; line < Panel; ++line) {
      to[p * Panel + line] = line < lines ? from[line * line_stride + p] : T(0);
    }
  }
}

// The same with no store past the end, for panels whose neighbour belongs to another thread.
template <class T, int Panel>
void pack_lines(T* to, const T* from, int64_t line_stride, int64_t lines, int64_t k) {
  const int64_t safe = Panel % kWidth<T> == 0 ? k : larger(0, k - kWidth<T>);
  pack_transposed<T, Panel>(to, from, line_stride, lines, safe);
  for (int64_t p = safe; p < k; ++p) {
    for (int64_t line = 0; line < Panel; ++line) {
      to[p * Panel + line] = line < lines ? from[line * line_stride + p] : T(0);
    }
  }
}

// Lines are contiguous across: copy `Panel` adjacent elements per k.
template <class T, int Panel>
PROFKIT_INLINE void pack_adjacent(T* to, const T* from, int64_t along_stride, int64_t lines, int64_t k) {
  constexpr int width = kWidth<T>;
  if (lines == Panel && Panel % width == 0) {
    for (int64_t p = 0; p < k; ++p) {
      const T* row = from + p * along_stride;
      __builtin_prefetch(row + 8 * along_stride);
#pragma GCC unroll 8
      for (int v = 0; v < Panel / width; ++v) store(to + p * Panel + v * width, load(row + v * width));
    }
    return;
  }
  if (Panel % width == 0) {
    const int64_t rest = lines % width;
    for (int64_t p = 0; p < k; ++p) {
      const T* row = from + p * along_stride;
#pragma GCC unroll 8
      for (int j = 0; j < Panel; j += width) {
        const bool partial = j + width > lines;
        store(to + p * Panel + j, !partial    ? load(row + j)
                                  : j < lines ? load_first(row + j, rest)
                                              : Vec<T>{});
      }
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p) {
    const T* row = from + p * along_stride;
    if (lines == Panel) {
      memcpy(to + p * Panel, row, Panel * sizeof(T));
    } else {
      for (int64_t line = 0; line < Panel; ++line) to[p * Panel + line] = line < lines ? row[line] : T(0);
    }
  }
}

template <class T, int Panel>
void pack_panel(T* to, const Strided<T>& from, int64_t across, int64_t along, int64_t lines, int64_t k) {
  const T* corner = from.at(across, along);
  if (from.along_stride == 1 && lines > 1) {
    pack_transposed<T, Panel>(to, corner, from.across_stride, lines, k);
  } else if (from.across_stride == 1) {
    pack_adjacent<T, Panel>(to, corner, from.along_stride, lines, k);
  } else {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t line = 0; line < Panel; ++line) {
        to[p * Panel + line] =
            line < lines ? corner[line * from.across_stride + p * from.along_stride] : T(0);
      }
    }
  }
}

// Whole panels of adjacent columns, some rows at a time over all panels: memory is read along its rows, where
// the hardware prefetcher follows.
template <class T, int Panel>
void pack_rows(T* to, int64_t panel_stride, const T* from, int64_t along_stride, int64_t lines, int64_t k) {
  constexpr int width = kWidth<T>, rows = 4;
  int64_t p = 0;
  for (; p + rows <= k; p += rows) {
    for (int64_t j = 0; j < lines; j += Panel) {
      T* panel = to + j / Panel * panel_stride + p * Panel;
#pragma GCC unroll 4
      for (int r = 0; r < rows; ++r) {
        const T* row = from + (p + r) * along_stride + j;
#pragma GCC unroll 8
        for (int v = 0; v < Panel; v += width) store(panel + r * Panel + v, load(row + v));
      }
    }
  }
  for (int64_t j = 0; p < k && j < lines; j += Panel) {
    pack_adjacent<T, Panel>(to + j / Panel * panel_stride + p * Panel, from + p * along_stride + j,
                            along_stride, Panel, k - p);
  }
}

// Panels for `lines` rows (columns) from `across`, k from `along`; a panel starts every panel_stride
// elements.
template <class T, int Panel>
void pack_panels(T* to, int64_t panel_stride, const Strided<T>& from, int64_t across, int64_t along,
                 int64_t lines, int64_t k) {
  int64_t first = 0;
  if (Panel % kWidth<T> == 0 && from.across_stride == 1 && lines >= 2 * Panel) {
    first = lines / Panel * Panel;
    pack_rows<T, Panel>(to, panel_stride, from.at(across, along), from.along_stride, first, k);
    to += first / Panel * panel_stride;
  }
  for (; first < lines; first += Panel, to += panel_stride) {
    pack_panel<T, Panel>(to, from, across + first, along, smaller(Panel, lines - first), k);
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
