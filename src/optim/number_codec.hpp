// NumberCodec: numbers of few bits to and from the type that the arithmetic works in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/memory.hpp"
#include "optim/store_context.hpp"
#include "optim/stored_numbers.hpp"
#include "optim/stored_report.hpp"

namespace trireme::optim {

// Elements that pass through staging memory at a time, at most: so many that the starts
// of kernels and copies cost little, and little memory (4 MiB in fp32) beside the state.
inline constexpr std::int64_t most_staged = 1 << 20;

// Values are numbers in the accumulator's type, codes what is kept or sent of them: a
// value is a code times the scale of its tensor. The codec has the staging memory that
// values pass through, and counts what rounding takes from them. Without low precision it
// has no memory and is not used.
class NumberCodec {
 public:
  NumberCodec(StoreContext& context, Device device);

  // Staging memory i of 0 to 3 for as many values, at most chunk_elements().
  TensorView staging(int i, std::int64_t elements) const;
  std::int64_t chunk_elements() const { return values_.view().elements() / stagings; }
  static constexpr std::int64_t stagings = 4;

  // Calls body(tensor, its elements in `range` of the flat parameter), at most as many at
  // a time as staging memory holds.
  template <class Body>
  void for_each_chunk(const FlatParameter& flat, Range range, const Body& body) const {
    const std::int64_t most = chunk_elements();
    for_each_tensor(flat, range, [&](const TensorRange& tensor, Range part) {
      for (std::int64_t at = part.begin; at < part.end; at += most)
        body(tensor, Range{at, std::min(at + most, part.end)});
    });
  }

  // codes = values / scale of the tensor, rounded to nearest; the report counts it as of
  // the class. `values` is unchanged, except for fp16 with a scale other than 1, where it
  // is left scaled.
  void encode(TensorClass what, const TensorView& values, const Scales& scales,
              std::size_t tensor, const TensorView& codes);
  // The same for elements [range) of a flat parameter, each tensor at its scale. What
  // lies between tensors is not written.
  void encode_range(TensorClass what, const FlatParameter& flat, Range range,
                    const TensorView& values, const Scales& scales,
                    const TensorView& codes);
  // values = codes at their scales, elements [range) of the flat parameter.
  void decode_range(const FlatParameter& flat, Range range, const TensorView& codes,
                    const Scales& scales, const TensorView& values);

  // The largest magnitude of each tensor of the layout in elements [range) of the flat
  // parameter: 0 of those that lie elsewhere, infinity for NaN, which a maximum over
  // ranks would lose.
  std::vector<float> amaxes(const FlatParameter& flat, Range range,
                            const TensorView& values);
  // amaxes = the largest of all ranks of the group.
  void agree(comm::Group& group, std::vector<float>& amaxes);
  // Scales of the flat parameter's tensors: `factor` times what the amaxes need.
  void set_scales(const FlatParameter& flat, const std::vector<float>& amaxes, DType type,
                  double factor, Scales& scales);
  float amax(const TensorView& values);
  float finite_amax(const TensorView& values);  // of the numbers that are finite
  // Memory on the device for magnitudes, f32: [count], at most three for each tensor.
  TensorView amax_memory(std::int64_t count) const {
    return amaxes_.view().rows(0, count);
  }

  StoredReport& report() { return report_; }
  std::size_t bytes() const {
    return values_.bytes() + amaxes_.bytes() + report_.bytes();
  }

 private:
  TensorView one_amax() const;  // [1] f32 on the device

  StoreContext& context_;
  Buffer values_;  // [stagings, chunk]
  Buffer amaxes_;  // three for each tensor, and one
  StoredReport report_;
};

}  // namespace trireme::optim
