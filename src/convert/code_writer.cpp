// CodeWriter: what all ways to write codes share.
// SPDX-License-Identifier: Apache-2.0
#include "convert/code_writer.hpp"

#include <algorithm>
#include <cmath>

#include "io/element_convert.hpp"

namespace trireme::convert {

std::vector<Buffer> CodeWriter::encode(const std::string& name,
                                       const TensorView& numbers) const {
  std::vector<Buffer> out;
  for (const auto& each : tensors(name, numbers.shape(), numbers.dtype())) {
    const Shape shape = each.extents.empty() ? Shape{1} : *each.shape();
    out.emplace_back(Device::host(), each.type->dtype.value_or(DType::u8), shape,
                     MemoryClass::data, "codes");
  }
  fill(name, numbers, out);
  return out;
}

io::SafetensorsTensor stored_tensor(const std::string& name, DType dtype,
                                    std::vector<std::int64_t> extents) {
  return {name, &io::safetensors_type(dtype), std::move(extents), 0, 0};
}

void take_row(const std::string& name, const TensorView& matrix, std::int64_t i,
              std::vector<float>& numbers) {
  const std::int64_t columns = matrix.dim(1);
  const auto* const from =
      static_cast<const std::byte*>(matrix.raw()) +
      static_cast<std::size_t>(i * columns) * size_of(matrix.dtype());
  numbers.resize(static_cast<std::size_t>(columns));
  io::convert_elements(from, matrix.dtype(), numbers.data(), DType::f32, columns);
  const bool finite = std::all_of(numbers.begin(), numbers.end(),
                                  [](float number) { return std::isfinite(number); });
  require(
      finite, Status::bad_content,
      "'{}' has an infinite number, or what is none, in row {}: there are no codes of "
      "it; mend the model, or leave out --quantize",
      name, i);
}

void refuse_transposed(std::string_view library, const FolderPlace& place) {
  require(place.transform == model::Transform::copy, Status::bad_content,
          "{} does not read codes of '{}', whose class keeps weights as [inputs, "
          "outputs]: write --quantize int8, nf4 or fp4",
          library, place.name);
}

}  // namespace trireme::convert
