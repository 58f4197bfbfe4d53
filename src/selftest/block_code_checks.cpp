// Codes of 4 and 8 bits in blocks, of whole tensors and of runs of them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/block_scale.hpp"
#include "base/split.hpp"
#include "kernels/block_codes.hpp"
#include "kernels/dynamic_blocks.hpp"
#include "selftest/kernel_checks.hpp"

namespace trireme::selftest {
namespace {

using kernels::dynamic_block;
using kernels::four_bit_block;

// Magnitudes differ from block to block; the last block is not whole.
constexpr std::int64_t elements = 3001;

Tensor waves(const Probe& probe, DType dtype, bool of_one_sign) {
  Vector values;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double x =
        std::sin(0.37 * static_cast<double>(i)) * static_cast<double>(1 + i / 64 % 7);
    values.push_back(of_one_sign ? std::abs(x) : x);
  }
  return probe.filled(dtype, {elements}, values);
}

// The largest magnitude of each block of x.
Vector absmax_of(const Vector& x, std::int64_t block) {
  const auto n = static_cast<std::int64_t>(x.size());
  Vector most(static_cast<std::size_t>(divide_up(n, block)));
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& here = most[i / static_cast<std::size_t>(block)];
    here = std::max(here, double{std::abs(static_cast<float>(x[i]))});
  }
  return most;
}

// x / absmax as it is encoded: in f32, by the inverse where the block is whole.
float scaled(const Vector& x, std::size_t i, const Vector& absmax, std::int64_t block) {
  const auto at = i / static_cast<std::size_t>(block);
  const bool whole = (at + 1) * static_cast<std::size_t>(block) <= x.size();
  return block_scale(static_cast<float>(absmax[at]), whole)
      .scaled(static_cast<float>(x[i]));
}

void check_four_bits(Probe& probe, DType dtype, FourBitType type) {
  constexpr std::int64_t blocks = divide_up(elements, four_bit_block);
  const Tensor x = waves(probe, dtype, false), back = probe.zeros(dtype, {elements});
  const Tensor absmax = probe.zeros(DType::f32, {blocks});
  const Codes codes(probe.device(), 1, kernels::four_bit_bytes(elements));
  const TensorView flat = codes.view().reshape({kernels::four_bit_bytes(elements)});
  kernels::encode_four_bits(probe.stream(), x, type, four_bit_block, flat, absmax);
  kernels::decode_four_bits(probe.stream(), flat, absmax, type, four_bit_block, back);
  const Vector values = x.values(), most = absmax_of(values, four_bit_block);
  const FourBitEncoder encoder = encoder_of(type);
  std::vector<std::uint8_t> right(static_cast<std::size_t>(flat.elements()));
  Vector decoded;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const unsigned code = encoder.encode(scaled(values, i, most, four_bit_block));
    const unsigned place = i % 2 == 0 ? code << 4 : code;
    right[i / 2] = static_cast<std::uint8_t>(right[i / 2] | place);
    decoded.push_back(double{book_of(type).numbers[code] *
                             static_cast<float>(most[i / four_bit_block])});
  }
  right.back() = static_cast<std::uint8_t>(right.back() | encoder.encode(0.0f));
  probe.equal(absmax.values(), most);
  probe.equal(codes.values(), right);
  probe.equal(back.values(), rounded(dtype, decoded));
}

// Codes and numbers of the dynamic type, given the largest magnitude of each block.
struct Coded {
  Coded(const Vector& x, const Vector& absmax, DynamicType type) {
    const DynamicMap& map = dynamic_map(type);
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes.push_back(
          static_cast<std::uint8_t>(map.encode(scaled(x, i, absmax, dynamic_block))));
      values.push_back(double{map.numbers[codes.back()] *
                              static_cast<float>(absmax[i / dynamic_block])});
    }
  }
  std::vector<std::uint8_t> codes;
  Vector values;
};

void check_dynamic(Probe& probe, DType dtype, DynamicType type) {
  constexpr std::int64_t blocks = divide_up(elements, dynamic_block);
  const Tensor x = waves(probe, dtype, type == DynamicType::unsigned_numbers);
  const Tensor back = probe.zeros(dtype, {elements});
  const Tensor absmax = probe.zeros(DType::f32, {blocks});
  const Codes codes(probe.device(), 1, elements);
  const TensorView flat = codes.view().reshape({elements});
  kernels::encode_dynamic(probe.stream(), x, type, dynamic_block, flat, absmax);
  kernels::decode_dynamic(probe.stream(), flat, absmax, type, dynamic_block, back);
  const Vector values = x.values(), most = absmax_of(values, dynamic_block);
  const Coded right(values, most, type);
  probe.equal(absmax.values(), most);
  probe.equal(codes.values(), right.codes);
  probe.equal(back.values(), right.values);
}

// Rows of 37 columns, of which a rank has the run from `first` on: codes are those of the
// whole tensor.
void check_run(Probe& probe, DType dtype, DynamicType type, std::int64_t first) {
  constexpr std::int64_t width = 37;
  const std::int64_t n = elements - first, from = first / dynamic_block;
  const std::int64_t blocks = divide_up(elements, dynamic_block) - from;
  const kernels::TensorRun run{first, width, 0, 0, width};
  const kernels::DynamicBlocks at{from, elements};
  const Vector whole =
      waves(probe, dtype, type == DynamicType::unsigned_numbers).values();
  const Tensor x = probe.filled(dtype, {n}, Vector(whole.begin() + first, whole.end()));
  const Tensor absmax = probe.zeros(dtype, {blocks}), back = probe.zeros(dtype, {n});
  const Codes codes(probe.device(), 1, n);
  const TensorView flat = codes.view().reshape({n});
  Vector most(static_cast<std::size_t>(from + blocks));
  for (std::int64_t i = first; i < elements; ++i) {
    double& here = most[static_cast<std::size_t>(i / dynamic_block)];
    here = std::max(here, std::abs(whole[static_cast<std::size_t>(i)]));
  }
  kernels::absmax_of_run(probe.stream(), x, run, at, absmax);
  kernels::encode_run(probe.stream(), x, run, type, at, absmax, flat);
  kernels::decode_run(probe.stream(), flat, run, type, at, absmax, back);
  const Coded right(whole, most, type);
  probe.equal(absmax.values(), Vector(most.begin() + from, most.end()));
  probe.equal(codes.values(), {right.codes.begin() + first, right.codes.end()});
  probe.equal(back.values(), Vector(right.values.begin() + first, right.values.end()));
}

}  // namespace

void check_four_bit_codes(Probe& probe, DType dtype) {
  for (const auto type : {FourBitType::nf4, FourBitType::fp4})
    check_four_bits(probe, dtype, type);
}

void check_dynamic_codes(Probe& probe, DType dtype) {
  for (const auto type : {DynamicType::signed_numbers, DynamicType::unsigned_numbers}) {
    check_dynamic(probe, dtype, type);
    for (const std::int64_t first : {0, 300, 1001}) check_run(probe, dtype, type, first);
  }
}

// The mean may be a sum in any order, in double: it is rounded to f32 once, or to its
// neighbour. What follows from the mean has no freedom.
void check_codes_of_absmax(Probe& probe, DType dtype) {
  constexpr std::int64_t B = 700, blocks = divide_up(B, dynamic_block);
  const Tensor absmax = probe.normal(dtype, {B}, 4), again = probe.zeros(dtype, {B});
  const Tensor nested = probe.zeros(dtype, {blocks}), offset = probe.zeros(dtype, {1});
  Vector values = absmax.values();
  for (double& x : values) x = std::abs(x);
  absmax.set(values);
  const Codes codes(probe.device(), 1, B);
  const TensorView flat = codes.view().reshape({B});
  kernels::encode_absmax(probe.stream(), absmax, flat, nested, offset);
  kernels::decode_absmax(probe.stream(), flat, nested, offset, again);
  double mean = 0;
  for (const double x : values) mean += x / static_cast<double>(B);
  probe.close(dtype, offset.values(), {mean}, roundoff(dtype) * mean);
  const auto shift = static_cast<float>(offset.values()[0]);
  for (double& x : values) x = double{static_cast<float>(x) - shift};
  const Vector most = absmax_of(values, dynamic_block);
  Coded right(values, most, DynamicType::signed_numbers);
  for (double& x : right.values) x = double{static_cast<float>(x) + shift};
  probe.equal(nested.values(), most);
  probe.equal(codes.values(), right.codes);
  probe.equal(absmax.values(), right.values);
  probe.equal(again.values(), right.values);
}

}  // namespace trireme::selftest
