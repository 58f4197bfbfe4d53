// FolderPlace: where a tensor of the model lies in a Hugging Face folder.
// SPDX-License-Identifier: Apache-2.0
#include "convert/folder_place.hpp"

#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

namespace trireme::convert {
namespace {

using model::Transform;

constexpr std::string_view experts = ".experts.";

// From one row, or column, of the model's tensor to the next, in elements of the
// folder's.
struct Steps {
  std::int64_t row = 0, column = 0;
};

// Steps of those for a box of rows of `width` elements.
Steps steps_of(const FolderPlace& place, std::int64_t width) {
  if (place.stacked() && !place.by_rows) return {place.step, width};
  if (place.transform == Transform::transpose) return {1, width};
  return {width, 1};
}

std::int64_t width_of(const TensorView& box) { return box.dim(box.shape().rank() - 1); }

// Calls move(element from `corner` on, element of the model's tensor) for all of them.
template <class Move>
void for_elements(const Steps& steps, std::byte* corner, const TensorView& tensor,
                  const Move& move) {
  const std::size_t size = size_of(tensor.dtype());
  const bool matrix = tensor.shape().rank() == 2;
  const std::int64_t rows = tensor.dim(0), columns = matrix ? tensor.dim(1) : 1;
  const std::int64_t stride = matrix ? tensor.stride(0) : 1;
  auto* const elements = static_cast<std::byte*>(tensor.raw());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      move(corner + static_cast<std::size_t>(i * steps.row + j * steps.column) * size,
           elements + static_cast<std::size_t>(i * stride + j) * size, size);
}

}  // namespace

FolderPlace::Box FolderPlace::box_of(const Shape& begin, const Shape& extent) const {
  const bool matrix = extent.rank() == 2;
  if (by_rows) return {{expert, first + begin[0], begin[1]}, {1, extent[0], extent[1]}};
  if (stacked()) {
    const std::int64_t from = step * begin[0] + first;
    const std::int64_t count = step * (extent[0] - 1) + 1;
    if (!matrix) return {{expert, from}, {1, count}};
    return {{expert, begin[1], from}, {1, extent[1], count}};
  }
  if (transform == Transform::transpose)
    return {{begin[1], begin[0]}, {extent[1], extent[0]}};
  if (transform == Transform::unit_dim)
    return {{begin[0], 0, begin[1]}, {extent[0], 1, extent[1]}};
  return {begin, extent};
}

namespace {

FolderPlace place_among(std::span<const model::StackedPart> stacks,
                        const model::HuggingFaceRow& row, const model::ModelConfig& m,
                        const model::WholeTensor& whole) {
  FolderPlace place{whole.name, whole.shape, transform_of(row, whole.name)};
  if (place.transform == Transform::transpose)
    place.shape = {whole.shape[1], whole.shape[0]};
  if (place.transform == Transform::unit_dim)
    place.shape = {whole.shape[0], 1, whole.shape[1]};
  const std::string_view name = whole.name;
  const std::size_t at = name.find(experts);
  if (stacks.empty() || at == std::string_view::npos) return place;
  const std::string_view rest = name.substr(at + experts.size());
  std::int64_t expert = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), expert);
  const std::string_view part = rest.substr(rest.find('.') + 1);
  for (const model::StackedPart& each : stacks) {
    if (each.part != part) continue;
    place.name =
        std::string(name.substr(0, at + experts.size())) + std::string(each.whole);
    place.expert = expert;
    place.step = each.step;
    place.first = each.first;
    const std::int64_t rows = each.step * whole.shape[0];
    place.by_rows = each.by_rows;
    if (each.by_rows) {
      place.first = each.first * whole.shape[0];
      place.shape = {m.moe.experts, rows, whole.shape[1]};
      continue;
    }
    place.shape = whole.shape.rank() == 1 ? Shape{m.moe.experts, rows}
                                          : Shape{m.moe.experts, whole.shape[1], rows};
  }
  return place;
}

}  // namespace

FolderPlace place_of(const model::HuggingFaceRow& row, const model::ModelConfig& m,
                     const model::WholeTensor& whole) {
  return place_among(row.stacks, row, m, whole);
}

FolderPlace stacked_place_of(const model::HuggingFaceRow& row,
                             const model::ModelConfig& m,
                             const model::WholeTensor& whole) {
  FolderPlace place = place_among(row.stacks_too.parts, row, m, whole);
  const std::string_view layer = m.row().names.experts.layer;
  const std::size_t at =
      row.stacks_too.layer.empty() ? std::string::npos : place.name.find(layer);
  if (at != std::string::npos) place.name.replace(at, layer.size(), row.stacks_too.layer);
  return place;
}

void from_folder(const FolderPlace& place, const TensorView& box, const TensorView& out) {
  for_elements(steps_of(place, width_of(box)), static_cast<std::byte*>(box.raw()), out,
               [](const std::byte* in_box, std::byte* in_tensor, std::size_t size) {
                 std::memcpy(in_tensor, in_box, size);
               });
}

void to_folder(const FolderPlace& place, const TensorView& from,
               const TensorView& whole) {
  std::int64_t first = 0;
  if (place.stacked())
    first = place.expert * (whole.elements() / whole.dim(0)) + place.first;
  auto* const corner = static_cast<std::byte*>(whole.raw()) +
                       static_cast<std::size_t>(first) * size_of(whole.dtype());
  for_elements(steps_of(place, width_of(whole)), corner, from,
               [](std::byte* in_box, const std::byte* in_tensor, std::size_t size) {
                 std::memcpy(in_box, in_tensor, size);
               });
}

std::string beside_weight(const std::string& name, std::string_view end) {
  constexpr std::string_view weight = ".weight";
  std::string base = name;
  if (base.ends_with(weight)) base.resize(base.size() - weight.size());
  return base + std::string(end);
}

}  // namespace trireme::convert
