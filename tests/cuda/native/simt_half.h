// The 16-bit types of cuda_fp16.h and cuda_bf16.h, as far as profkit's kernels use them: storage and
// conversion, rounding to nearest even as the hardware does.
#pragma once

struct __half {
  uint16_t bits;
};
struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __half2float(__half value) {
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t exponent = (value.bits >> 10) & 0x1fu, fraction = value.bits & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction / 2^24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const uint32_t top = exponent == 31 ? 0x7f800000u : (exponent + 112u) << 23;
  return __uint_as_float(sign | top | (fraction << 13));
}

inline __half __float2half_rn(float value) {
  const uint32_t bits = __float_as_uint(value), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return __half{0x7fff};
  if (magnitude >= 0x477ff000u) return __half{static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above
  if (magnitude < 0x38800000u) {  // below 2^-14: a multiple of 2^-24
    const float scaled = std::nearbyint(__uint_as_float(magnitude) * 0x1p24f);
    return __half{static_cast<uint16_t>(sign | static_cast<uint32_t>(scaled))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return __half{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

inline float __bfloat162float(__nv_bfloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const uint32_t bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return __nv_bfloat16{0x7fff};
  return __nv_bfloat16{static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
