// Numbers in few bits: FP8, its blocks, stochastic rounding, and what they lose.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>
#include <utility>

#include "base/philox.hpp"
#include "base/split.hpp"
#include "base/stochastic_rounding.hpp"
#include "kernels/fp8_blocks.hpp"
#include "kernels/quantize.hpp"
#include "kernels/reference/fp8.hpp"
#include "kernels/rounding.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

namespace reference = kernels::reference;
using kernels::Fp8Format;
using kernels::Fp8Matrix;
using kernels::Fp8Scaling;

constexpr Fp8Format formats[] = {Fp8Format::e4m3, Fp8Format::e5m2};

// Numbers of many magnitudes, as the type holds them.
Tensor scattered(Probe& probe, DType dtype, std::int64_t M, std::int64_t K) {
  const Tensor x = probe.normal(dtype, {M, K}, 11, 8);
  Vector values = x.values();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] *= std::exp2(static_cast<double>(i % 25) - 12);
  Tensor wide(probe.device(), dtype, {M, K}, 5);
  wide.set(values);
  return wide;
}

// Codes and decoded values of a matrix, given the scale of each element: the bits of both
// are defined.
void check_codes(Probe& probe, DType dtype, const Tensor& x, const Fp8Matrix& matrix,
                 const Codes& codes, const Vector& scales) {
  const std::int64_t M = x.view().dim(0), K = x.view().dim(1);
  const Tensor back = probe.zeros(DType::f32, {M, K});
  kernels::quantize(probe.stream(), x, matrix);
  kernels::dequantize(probe.stream(), matrix, back);
  const Vector values = x.values();
  std::vector<std::uint8_t> right;
  Vector decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto scale = static_cast<float>(scales[i]);
    const double scaled = dtype == DType::f64
                              ? values[i] * (1.0 / double{scale})
                              : double{static_cast<float>(values[i]) * (1.0f / scale)};
    const int code = reference::fp8_nearest(scaled, matrix.format);
    right.push_back(static_cast<std::uint8_t>(code));
    decoded.push_back(
        double{static_cast<float>(reference::fp8_value(code, matrix.format)) * scale});
  }
  probe.equal(codes.values(), right);
  probe.equal(back.values(), decoded);
}

// The scale of each element when blocks have the scales of their largest magnitudes.
Vector block_scales(const Vector& values, std::int64_t K, std::int64_t height,
                    Fp8Format format) {
  const std::int64_t M = static_cast<std::int64_t>(values.size()) / K;
  const std::int64_t across = divide_up(K, fp8_block);
  const auto block = [&](std::int64_t i) {
    return static_cast<std::size_t>(i / K / height * across + i % K / fp8_block);
  };
  std::vector<float> amax(static_cast<std::size_t>(divide_up(M, height) * across));
  for (std::int64_t i = 0; i < M * K; ++i) {
    float& most = amax[block(i)];
    most =
        std::max(most, std::abs(static_cast<float>(values[static_cast<std::size_t>(i)])));
  }
  Vector scales;
  for (std::int64_t i = 0; i < M * K; ++i)
    scales.push_back(double{kernels::fp8_scale(amax[block(i)], format)});
  return scales;
}

// Codes of both orders in one read, and the largest magnitude so far: first one that
// stays, then one that does not.
void check_both_orders(Probe& probe, DType dtype, Fp8Format format, std::int64_t M,
                       std::int64_t K) {
  constexpr float scale = 0.01f;
  const Tensor x = scattered(probe, dtype, M, K);
  const Tensor scale_1 = probe.filled(DType::f32, {1}, {double{scale}});
  const Codes codes(probe.device(), M, K), turned(probe.device(), K, M);
  const Vector values = x.values();
  std::vector<std::uint8_t> right(values.size()), right_KM(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = dtype == DType::f64
                             ? values[i] * (1.0 / double{scale})
                             : double{static_cast<float>(values[i]) * (1.0f / scale)};
    const auto width = static_cast<std::size_t>(K), rows = static_cast<std::size_t>(M);
    right[i] = static_cast<std::uint8_t>(reference::fp8_nearest(value, format));
    right_KM[i % width * rows + i / width] = right[i];
  }
  const auto most = double{static_cast<float>(largest(values))};
  for (const double before : {2 * most, most / 2}) {
    const Tensor amax = probe.filled(DType::f32, {1}, {before});
    const Tensor alone = probe.filled(DType::f32, {1}, {before});
    kernels::amax_so_far(probe.stream(), x, alone);
    kernels::quantize_and_transpose(probe.stream(), x,
                                    {codes.view(), format, Fp8Scaling::tensor, scale_1},
                                    turned.view(), amax);
    probe.equal(codes.values(), right);
    probe.equal(turned.values(), right_KM);
    probe.equal(alone.values(), {std::max(before, most)});
    probe.equal(amax.values(), {std::max(before, most)});
  }
}

// What a scale for the tensor loses at both ends, counted from the definition.
void check_losses(Probe& probe, DType dtype, Fp8Format format) {
  constexpr std::int64_t M = 33, K = 130;
  constexpr float scale = 0x1p-4f;
  const Tensor x = scattered(probe, dtype, M, K);
  const Tensor scale_1 = probe.filled(DType::f32, {1}, {double{scale}});
  const Tensor counts = probe.filled(DType::f64, {2}, {10, 20});
  const Tensor most = probe.filled(DType::f32, {1}, {double{scale / 2}});
  const Codes codes(probe.device(), M, K);
  const Fp8Matrix y{codes.view(), format, Fp8Scaling::tensor, scale_1};
  kernels::quantize(probe.stream(), x, y);
  kernels::count_losses(probe.stream(), x, y, counts, most);
  Vector right = {10, 20};
  for (const double value : x.values()) {
    const double scaled = value / double{scale};  // a power of two: no rounding
    const int code = reference::fp8_nearest(scaled, format);
    right[0] += kernels::fp8_saturates(scaled, format) ? 1 : 0;
    right[1] += value != 0 && (code & 0x7f) == 0 ? 1 : 0;
  }
  probe.equal(counts.values(), right);
  probe.equal(most.values(), {double{scale}});
}

}  // namespace

void check_both_quantized_orders(Probe& probe, DType dtype) {
  for (const Fp8Format format : formats)
    for (const auto& [M, K] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {48, 144}, {129, 130}})
      check_both_orders(probe, dtype, format, M, K);
}

void check_quantization_losses(Probe& probe, DType dtype) {
  for (const Fp8Format format : formats) check_losses(probe, dtype, format);
}

void check_quantize(Probe& probe, DType dtype) {
  for (const Fp8Format format : formats)
    for (const auto& [M, K] :
         {std::pair<std::int64_t, std::int64_t>{3, 130}, {130, 256}}) {
      const Tensor x = scattered(probe, dtype, M, K);
      const Vector values = x.values();
      const Codes codes(probe.device(), M, K);
      const Tensor amax = probe.zeros(DType::f32, {1}),
                   scale = probe.zeros(DType::f32, {1});
      kernels::amax(probe.stream(), x, amax);
      const auto most = static_cast<float>(largest(values));
      probe.equal(amax.values(), {double{most}});
      kernels::scale_of_amax(probe.stream(), amax, format, scale);
      const double one = double{kernels::fp8_scale(most, format)};
      probe.equal(scale.values(), {one});
      check_codes(probe, dtype, x, {codes.view(), format, Fp8Scaling::tensor, scale},
                  codes, Vector(values.size(), one));
      for (const auto scaling : {Fp8Scaling::row_128, Fp8Scaling::block_128}) {
        const Tensor scales =
            probe.zeros(DType::f32, kernels::fp8_scales_shape(scaling, M, K));
        check_codes(probe, dtype, x, {codes.view(), format, scaling, scales}, codes,
                    block_scales(values, K,
                                 scaling == Fp8Scaling::row_128 ? 1 : fp8_block, format));
      }
    }
}

void check_transpose(Probe& probe, DType dtype) {
  for (const auto& [M, K] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 130}, {200, 65}}) {
    const Tensor x = probe.normal(dtype, {M, K}, 1, 5), y = probe.zeros(dtype, {K, M});
    kernels::transpose(probe.stream(), x, y);
    const Vector from = x.values();
    Vector turned;
    for (std::int64_t k = 0; k < K; ++k)
      for (std::int64_t m = 0; m < M; ++m)
        turned.push_back(from[static_cast<std::size_t>(m * K + k)]);
    probe.equal(y.values(), turned);
  }
}

// A run of a tensor, of any elements: blocks are those of the whole tensor.
void check_fp8_blocks(Probe& probe, DType dtype) {
  constexpr std::int64_t rows = 150, columns = 300, first = 12345, blocks = 2 * 3;
  constexpr std::int64_t n = rows * columns - first;
  const kernels::TensorRun run{first, columns, 0, 0, columns};
  const Tensor x = probe.normal(dtype, {n}, 3),
               amaxes = probe.zeros(DType::f32, {blocks});
  const Tensor scales = probe.zeros(DType::f32, {blocks}), back = probe.zeros(dtype, {n});
  const Codes codes(probe.device(), 1, n);
  const Vector values = x.values();
  const auto block = [&](std::size_t i) {
    return static_cast<std::size_t>(run.block(static_cast<std::int64_t>(i)));
  };
  Vector most(blocks), of_blocks;
  for (std::size_t i = 0; i < values.size(); ++i)
    most[block(i)] = std::max(most[block(i)], std::abs(values[i]));
  for (const double amax : most)
    of_blocks.push_back(
        double{kernels::fp8_power_scale(static_cast<float>(amax), Fp8Format::e4m3)});
  scales.set(of_blocks);
  const TensorView flat = codes.view().reshape({n});
  kernels::amax_of_blocks(probe.stream(), x, run, amaxes);
  kernels::encode_blocks(probe.stream(), x, run, Fp8Format::e4m3, scales, flat);
  kernels::decode_blocks(probe.stream(), flat, run, Fp8Format::e4m3, scales, back);
  std::vector<std::uint8_t> right;
  Vector decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double scale = of_blocks[block(i)];  // a power of two: no rounding
    const int code = reference::fp8_nearest(values[i] / scale, Fp8Format::e4m3);
    right.push_back(static_cast<std::uint8_t>(code));
    decoded.push_back(reference::fp8_value(code, Fp8Format::e4m3) * scale);
  }
  probe.equal(amaxes.values(), most);
  probe.equal(codes.values(), right);
  probe.equal(back.values(), decoded);
}

// A number and the random bits of its element decide: the result has no freedom.
void check_stochastic_rounding(Probe& probe, DType dtype) {
  constexpr std::int64_t n = 9001;
  constexpr float scale = 0x1p-12f;
  for (const DType type : {DType::bf16, DType::f16, DType::e4m3, DType::e5m2}) {
    const Tensor x = probe.normal(dtype, {n}, 6);
    const Vector before = x.values();
    kernels::round_stochastic(probe.stream(), x, {0, n, 0, 0, n}, type, scale, {5, 6, 7});
    const Random random(5, 6, 7);
    Vector right;
    for (std::size_t i = 0; i < before.size(); ++i)
      right.push_back(
          double{scale * round_stochastic(static_cast<float>(before[i]) / scale,
                                          low_precision_format(type),
                                          static_cast<std::uint32_t>(random.bits(i)))});
    probe.equal(x.values(), right);
  }
}

// Beyond the limits, and not zero up to them; with a scale for each block of 128 x 128,
// of numbers that are divided by it.
void check_rounding_losses(Probe& probe, DType dtype) {
  constexpr std::int64_t rows = 140, columns = 150, n = rows * columns;
  const kernels::TensorRun run{0, columns, 0, 0, columns};
  const Vector values = scattered(probe, dtype, 1, n).values();
  const Tensor x = probe.filled(dtype, {n}, values);
  const Tensor scales = probe.filled(DType::f32, {4}, {0x1p-3, 0x1p2, 1, 0x1p5});
  const Vector of_blocks = scales.values();
  for (const DType type : {DType::bf16, DType::f16, DType::e4m3, DType::e5m2})
    for (const bool blocks : {false, true}) {
      const auto limits = kernels::rounding_limits(type, 1.0f);
      const Tensor counts = probe.filled(DType::f64, {2}, {1, 2});
      kernels::count_rounding_losses(probe.stream(), x, limits, run,
                                     blocks ? scales.view() : TensorView(), counts);
      Vector right = {1, 2};
      for (std::size_t i = 0; i < values.size(); ++i) {
        const auto block = static_cast<std::size_t>(run.block(static_cast<int>(i)));
        const double size = std::abs(values[i]) / (blocks ? of_blocks[block] : 1);
        right[0] += size > double{limits.beyond} ? 1 : 0;
        right[1] += size > 0 && size <= double{limits.least} ? 1 : 0;
      }
      probe.equal(counts.values(), right);
    }
}

void check_square_roots(Probe& probe, DType dtype) {
  const Tensor x = probe.normal(dtype, {9001}, 7);
  Vector squares = x.values();
  for (double& v : squares) v *= v;
  kernels::square(probe.stream(), x);
  probe.close(dtype, x.values(), squares, 0);
  Vector roots = x.values();
  for (double& v : roots) v = v > 0 ? std::max(std::sqrt(v), 0x1p-9) : 0;
  kernels::square_root(probe.stream(), x, 0x1p-9f);
  probe.close(dtype, x.values(), roots, 0);
}

}  // namespace trireme::selftest
