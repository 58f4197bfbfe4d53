// CUDA's vector types with their alignments, dim3, and make_*.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// T2, T3 and T4 of an element type, each with its make function. CUDA aligns 3 like 1.
#define TRIREME_VECTOR_1(T, name) \
  struct name##1 {                \
    T x;                          \
  };                              \
  constexpr name##1 make_##name##1(T x) { return {x}; }
#define TRIREME_VECTOR_2(T, name, alignment) \
  struct alignas(alignment) name##2 {        \
    T x, y;                                  \
  };                                         \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }
#define TRIREME_VECTOR_3(T, name) \
  struct name##3 {                \
    T x, y, z;                    \
  };                              \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }
#define TRIREME_VECTOR_4(T, name, alignment) \
  struct alignas(alignment) name##4 {        \
    T x, y, z, w;                            \
  };                                         \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define TRIREME_VECTORS(T, name, alignment2, alignment4) \
  TRIREME_VECTOR_1(T, name)                              \
  TRIREME_VECTOR_2(T, name, alignment2)                  \
  TRIREME_VECTOR_3(T, name)                              \
  TRIREME_VECTOR_4(T, name, alignment4)

TRIREME_VECTORS(signed char, char, 2, 4)
TRIREME_VECTORS(unsigned char, uchar, 2, 4)
TRIREME_VECTORS(short, short, 4, 8)
TRIREME_VECTORS(unsigned short, ushort, 4, 8)
TRIREME_VECTORS(int, int, 8, 16)
TRIREME_VECTORS(unsigned int, uint, 8, 16)
TRIREME_VECTORS(float, float, 8, 16)
TRIREME_VECTOR_2(long long, longlong, 16)
TRIREME_VECTOR_2(unsigned long long, ulonglong, 16)
TRIREME_VECTOR_2(double, double, 16)

#undef TRIREME_VECTORS
#undef TRIREME_VECTOR_4
#undef TRIREME_VECTOR_3
#undef TRIREME_VECTOR_2
#undef TRIREME_VECTOR_1

struct dim3 {
  unsigned int x, y, z;
  constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)
      : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};
