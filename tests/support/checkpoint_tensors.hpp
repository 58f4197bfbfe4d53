// Tensors for tests of checkpoints, cut into boxes in different ways.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <string>
#include <type_traits>
#include <vector>

#include "base/split.hpp"
#include "io/checkpoint.hpp"
#include "support/world.hpp"

namespace trireme::test {

// A folder that all ranks share, removed at the end.
class SharedFolder {
 public:
  SharedFolder() {
    std::string name;
    if (world().rank() == 0) {
      name = std::filesystem::temp_directory_path() / "trireme-checkpoint-XXXXXX";
      if (::mkdtemp(name.data()) == nullptr) name.clear();
    }
    path_ = world().broadcast(name);
    require(!path_.empty(), "no folder for the test");
  }
  ~SharedFolder() {
    world().barrier();
    std::error_code ignored;
    if (world().rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// One tensor of a fake model: element i (row-major) has a value that every dtype holds
// exactly and that names tensor and place up to a period of 251.
struct FakeTensor {
  std::string path;
  DType dtype;
  Shape shape;

  double value(std::int64_t i) const {
    return static_cast<double>((i * 7 + static_cast<std::int64_t>(path.size())) % 251) -
           ((dtype == DType::u8 || dtype == DType::u16) ? 0 : 125);
  }
};

inline void store(void* at, DType dtype, double value) {
  switch (dtype) {
    case DType::i64: *static_cast<std::int64_t*>(at) = std::int64_t(value); return;
    case DType::i32: *static_cast<std::int32_t*>(at) = std::int32_t(value); return;
    case DType::u16: *static_cast<std::uint16_t*>(at) = std::uint16_t(value); return;
    case DType::u8: *static_cast<std::uint8_t*>(at) = std::uint8_t(value); return;
    default: break;
  }
  visit_floating(dtype, [&]<class T>(T) {
    if constexpr (std::is_same_v<T, double>)
      *static_cast<T*>(at) = value;
    else
      *static_cast<T*>(at) = T(static_cast<float>(value));
  });
}

// Memory for boxes that outlives them.
using Memory = std::deque<std::vector<std::byte>>;

// A matrix's box in memory whose rows are `gap` elements longer than the box.
inline TensorView make_view(Memory& memory, DType dtype, const Shape& extent,
                            std::int64_t gap) {
  if (extent.rank() != 2 || gap == 0) {
    auto& bytes = memory.emplace_back(
        static_cast<std::size_t>(extent.elements()) * size_of(dtype) + 1);
    return {bytes.data(), dtype, extent};
  }
  const Shape padded{extent[0], extent[1] + gap};
  auto& bytes =
      memory.emplace_back(static_cast<std::size_t>(padded.elements()) * size_of(dtype));
  return TensorView(bytes.data(), dtype, padded).columns(gap / 2, extent[1]);
}

// Calls f(pointer to element of the view, index of that element in the whole tensor).
template <class F>
void for_each_element(const TensorView& view, const Shape& whole, const Shape& begin,
                      const F& f) {
  const int rank = whole.rank();
  for (std::int64_t n = 0; n < view.elements(); ++n) {
    std::int64_t rest = n, offset = 0, index = 0, step = 1;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t at = rest % view.dim(d);
      rest /= view.dim(d);
      offset += at * view.stride(d);
      index += (begin[d] + at) * step;
      step *= whole[d];
    }
    f(static_cast<std::byte*>(view.raw()) +
          offset * static_cast<std::int64_t>(size_of(view.dtype())),
      index);
  }
}

// Part `part` of a tensor cut into rows x columns parts (rows only for other ranks than
// 2), filled with its values.
inline io::TensorBox make_box(Memory& memory, const FakeTensor& tensor, int rows,
                              int columns, int part, std::int64_t gap = 0) {
  Shape begin = tensor.shape, extent = tensor.shape;
  for (int i = 0; i < begin.rank(); ++i) begin[i] = 0;
  const bool matrix = tensor.shape.rank() == 2;
  const Range r = matrix
                      ? split_range(tensor.shape[0], rows, part / columns)
                      : split_range(tensor.shape[0], std::int64_t{rows} * columns, part);
  begin[0] = r.begin;
  extent[0] = r.count();
  if (matrix) {
    const Range c = split_range(tensor.shape[1], columns, part % columns);
    begin[1] = c.begin;
    extent[1] = c.count();
  }
  const TensorView view = make_view(memory, tensor.dtype, extent, gap);
  for_each_element(view, tensor.shape, begin, [&](std::byte* at, std::int64_t index) {
    store(at, tensor.dtype, tensor.value(index));
  });
  return {tensor.path, tensor.shape, begin, view};
}

inline const std::vector<FakeTensor>& fake_model() {
  static const std::vector<FakeTensor> tensors = {
      {"model/embed.weight", DType::f32, {37, 16}},
      {"model/layers.0.weight", DType::bf16, {12, 10}},
      {"model/layers.0.bias", DType::f16, {11}},
      {"model/layers.1.experts", DType::f64, {5, 3, 4}},
      {"optimizer/moment1/embed.weight", DType::f32, {37, 16}},
      {"optimizer/steps", DType::i64, {1}},
      {"data/order", DType::u16, {9}}};
  return tensors;
}

inline io::CheckpointInfo fake_info(std::int64_t step) {
  io::CheckpointInfo info;
  info.program_version = "1.2.3";
  info.step = step;
  info.tokens = step * 1000;
  info.mesh = {1, 2, 1, 2};
  info.deck = "[run]\nname = \"test\"\n";
  info.commit = "0123456789ab";
  info.host = "node-1";
  info.written = "2026-01-31T12:00:00Z";
  info.loss = 2.5;
  return info;
}

// Boxes of the fake model for this rank of a grid that has as many parts as ranks.
inline std::vector<io::TensorBox> fake_boxes(Memory& memory, int rows, int columns,
                                             std::int64_t gap = 0) {
  std::vector<io::TensorBox> boxes;
  for (const auto& tensor : fake_model())
    boxes.push_back(make_box(memory, tensor, rows, columns, world().rank(), gap));
  return boxes;
}

}  // namespace trireme::test
