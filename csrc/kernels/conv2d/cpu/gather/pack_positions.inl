// Panels of B straight from a planar slab: for every step k of the reduction, `tile columns` positions side
// by side. Positions of one row of the grid are adjacent in the slab, so a panel is a few vector copies per
// k, whatever the stride. Copies may run past their piece: what they overwrite is written later (pieces,
// steps and panels ascend).
#pragma once

#include "kernels/conv2d/cpu/gather/slab.inl"

namespace profkit {
namespace PROFKIT_ISA {

struct Copy {
  int64_t from, to;
};

template <class T, int Count>
PROFKIT_INLINE void copy_steps(T* to, const T* base, const int64_t* step, int64_t k, const Copy* copies) {
  int64_t from[Count], target[Count];
#pragma GCC unroll 8
  for (int c = 0; c < Count; ++c) {
    from[c] = copies[c].from;
    target[c] = copies[c].to;
  }
  for (int64_t p = 0; p < k; ++p, to += kTileColumns<T>) {
    const T* row = base + step[p];
    // The next panel reads the next line of each of these k places: too many streams for the hardware
    // prefetcher.
    __builtin_prefetch(row + from[0] + 2 * kTileColumns<T>);
#pragma GCC unroll 8
    for (int c = 0; c < Count; ++c) store(to + target[c], load(row + from[c]));
  }
}

// `readable`: how many elements from base exist; where that is a limit, step[] ascends. position[] always
// does.
template <class T>
void pack_positions(T* to, const T* base, int64_t readable, const int64_t* step, int64_t k,
                    const int64_t* position, int64_t columns) {
  constexpr int width = kWidth<T>;
  Copy copies[kTileColumns<T>];
  int64_t count = 0;
  for (int64_t j = 0; j < columns;) {
    copies[count++] = {position[j], j};
    int64_t length = 1;
    while (length < width && j + length < columns && position[j + length] == position[j] + length) ++length;
    j += length;
  }
  if (step[k - 1] + copies[count - 1].from + width > readable) {
    for (int64_t p = 0; p < k; ++p) {
      for (int64_t j = 0; j < columns; ++j) to[p * kTileColumns<T> + j] = base[step[p] + position[j]];
    }
    return;
  }
  switch (count) {
    case 1:
      return copy_steps<T, 1>(to, base, step, k, copies);
    case 2:
      return copy_steps<T, 2>(to, base, step, k, copies);
    case 3:
      return copy_steps<T, 3>(to, base, step, k, copies);
    case 4:
      return copy_steps<T, 4>(to, base, step, k, copies);
    default:
      for (int64_t p = 0; p < k; ++p, to += kTileColumns<T>) {
        for (int64_t c = 0; c < count; ++c) store(to + copies[c].to, load(base + step[p] + copies[c].from));
      }
  }
}

}  // namespace PROFKIT_ISA
}  // namespace profkit
