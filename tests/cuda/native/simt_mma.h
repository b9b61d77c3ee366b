// mma.sync at fragment level: the 32 lanes meet, their fragments are put together as matrices by the layouts
// that the PTX manual gives, multiplied, and handed back. Products of 16-bit (or TF32) values are exact in
// double; the sum is rounded once to float, while hardware keeps fewer bits in between: emulated, not the
// hardware's rounding.
#pragma once

namespace simt {

struct MmaLane {
  float* c;
  const uint32_t *a, *b;
};

enum class MmaType { f16, bf16, tf32 };

// Element `k` of a packed register pair, or of a register each for TF32.
template <MmaType type>
double mma_element(uint32_t bits, int half) {
  if constexpr (type == MmaType::tf32) {
    // Hardware reads the upper 19 bits.
    return __uint_as_float(bits & 0xffffe000u);
  } else {
    const auto part = static_cast<uint16_t>(half ? bits >> 16 : bits & 0xffffu);
    if constexpr (type == MmaType::f16) return __half2float(__half{part});
    return __bfloat162float(__nv_bfloat16{part});
  }
}

// Reads the registers of all lanes, which is no access that could race.
template <MmaType type>
__attribute__((no_sanitize("thread"))) void mma_together(void* const* lanes) {
  constexpr int kDepth = type == MmaType::tf32 ? 8 : 16;
  double a[16][16] = {}, b[16][8] = {};
  for (int lane = 0; lane < 32; ++lane) {
    const MmaLane& mine = *static_cast<MmaLane*>(lanes[lane]);
    const int group = lane / 4, member = lane % 4;
    if constexpr (type == MmaType::tf32) {
      for (int i = 0; i < 4; ++i)
        a[group + (i % 2) * 8][member + (i / 2) * 4] = mma_element<type>(mine.a[i], 0);
      for (int i = 0; i < 2; ++i) b[member + i * 4][group] = mma_element<type>(mine.b[i], 0);
    } else {
      for (int i = 0; i < 8; ++i) {
        const int row = group + (i / 2 % 2) * 8, column = member * 2 + i % 2 + (i / 4) * 8;
        a[row][column] = mma_element<type>(mine.a[i / 2], i % 2);
      }
      for (int i = 0; i < 4; ++i)
        b[member * 2 + i % 2 + (i / 2) * 8][group] = mma_element<type>(mine.b[i / 2], i % 2);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    const MmaLane& mine = *static_cast<MmaLane*>(lanes[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + (i / 2) * 8, column = lane % 4 * 2 + i % 2;
      double sum = mine.c[i];
      for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      mine.c[i] = static_cast<float>(sum);
    }
  }
}

template <MmaType type>
void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Site site) {
  MmaLane mine{c, a, b};
  collective(&mine, mma_together<type>, site);
}

inline void mma_m16n8k16_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<MmaType::f16>(c, a, b, Site{__FILE__, __LINE__});
}
inline void mma_m16n8k16_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<MmaType::bf16>(c, a, b, Site{__FILE__, __LINE__});
}
inline void mma_m16n8k8_tf32(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  mma<MmaType::tf32>(c, a, b, Site{__FILE__, __LINE__});
}

// ldmatrix: every lane reads what it gets for itself, at addresses that other lanes bring, so that a read
// before its data is there is a race as on a GPU.
template <bool transposed>
void load_matrices(uint32_t (&values)[4], const void* row) {
  const Site site{__FILE__, __LINE__};
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) fail("a row of ldmatrix is not aligned to 16 bytes");
  const int group = lane() / 4, member = lane() % 4;
  const auto own = reinterpret_cast<uint64_t>(row);
  for (int matrix = 0; matrix < 4; ++matrix) {
    uint16_t pair[2];
    for (int half = 0; half < 2; ++half) {
      const int line = transposed ? member * 2 + half : group,
                column = transposed ? group : member * 2 + half;
      const uint64_t from = shuffle(0xffffffffu, own, matrix * 8 + line, site);
      pair[half] = reinterpret_cast<const uint16_t*>(from)[column];
    }
    values[matrix] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
  }
}

// To nearest, ties away from zero, as cvt.rna does.
inline uint32_t to_tf32(float value) {
  const uint32_t bits = __float_as_uint(value);
  return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
}

}  // namespace simt
