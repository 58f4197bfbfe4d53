// weights_digest: a hash of some numbers of each tensor.
// SPDX-License-Identifier: Apache-2.0
#include "infer/weights_digest.hpp"

#include <algorithm>
#include <vector>

#include "io/digest.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::infer {
namespace {

constexpr std::int64_t samples = 16, numbers_of_sample = 256;

// A part of a row of a tensor.
struct Place {
  Shape begin, extent;
};

// Sample i of a tensor: rows from the first to the last of all outer dims, and parts of
// them from the left to the right.
Place place_of(const Shape& whole, std::int64_t i) {
  Place place{whole, whole};
  const int inner = whole.rank() - 1;
  const std::int64_t columns = whole[inner];
  const std::int64_t width = std::min(columns, numbers_of_sample);
  place.begin[inner] = (columns - width) * i / (samples - 1);
  place.extent[inner] = width;
  std::int64_t rows = 1;
  for (int dim = 0; dim < inner; ++dim) rows *= whole[dim];
  std::int64_t row = (rows - 1) * i / (samples - 1);
  for (int dim = inner - 1; dim >= 0; --dim) {
    place.begin[dim] = row % whole[dim];
    place.extent[dim] = 1;
    row /= whole[dim];
  }
  return place;
}

}  // namespace

std::string weights_digest(const io::TensorSource& source,
                           const model::ModelConfig& model) {
  io::Digest digest;
  for (const model::WholeTensor& tensor : model::whole_tensors(model)) {
    digest.add(tensor.name.data(), tensor.name.size());
    for (std::int64_t i = 0; i < samples; ++i) {
      const Place place = place_of(tensor.shape, i);
      if (i > 0 && place.begin == place_of(tensor.shape, i - 1).begin) continue;
      std::vector<float> numbers(static_cast<std::size_t>(place.extent.elements()));
      source.read("model/" + tensor.name, tensor.shape, place.begin,
                  TensorView(numbers.data(), DType::f32, place.extent));
      digest.add(numbers.data(), numbers.size() * sizeof(float));
    }
  }
  return digest.text();
}

}  // namespace trireme::infer
