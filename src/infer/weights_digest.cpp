// weights_digest: a hash of some numbers of each tensor.
// SPDX-License-Identifier: Apache-2.0
#include "infer/weights_digest.hpp"

#include <algorithm>
#include <vector>

#include "io/digest.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::infer {
namespace {

constexpr std::int64_t numbers_of_row = 256;

// Where the first or the last row of a tensor begins, and how much of it is read.
struct Place {
  Shape begin, extent;
};
Place place_of(const Shape& whole, bool last) {
  Place place{whole, whole};
  for (int dim = 0; dim < whole.rank(); ++dim) {
    const bool inner = dim == whole.rank() - 1;
    place.extent[dim] = inner ? std::min(whole[dim], numbers_of_row) : 1;
    place.begin[dim] = last && !inner ? whole[dim] - 1 : 0;
  }
  return place;
}

}  // namespace

std::string weights_digest(const io::TensorSource& source,
                           const model::ModelConfig& model) {
  io::Digest digest;
  for (const model::WholeTensor& tensor : model::whole_tensors(model)) {
    digest.add(tensor.name.data(), tensor.name.size());
    for (const bool last : {false, true}) {
      const Place place = place_of(tensor.shape, last);
      std::vector<float> numbers(static_cast<std::size_t>(place.extent.elements()));
      source.read("model/" + tensor.name, tensor.shape, place.begin,
                  TensorView(numbers.data(), DType::f32, place.extent));
      digest.add(numbers.data(), numbers.size() * sizeof(float));
    }
  }
  return digest.text();
}

}  // namespace trireme::infer
