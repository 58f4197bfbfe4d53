// CodedWeights: decoding a module's weights before it runs.
// SPDX-License-Identifier: Apache-2.0
#include "model/coded_weights.hpp"

#include <algorithm>
#include <utility>

#include "base/split.hpp"
#include "kernels/coded_matrix.hpp"

namespace trireme::model {

void CodedWeights::add(int module, Param& param, std::vector<PlacedCodes> codes,
                       std::size_t bytes) {
  require(param.shape.rank() == 2, "'{}' of shape {} is no matrix of codes", param.name,
          param.shape);
  std::vector<Weight>& weights = modules_[module];
  constexpr std::int64_t aligned = 64;
  std::int64_t begin = 0;
  if (!weights.empty())
    begin = weights.back().begin + weights.back().param->shape.elements();
  begin = divide_up(begin, aligned) * aligned;
  weights.push_back({&param, std::move(codes), begin});
  const std::int64_t elements = param.shape.elements();
  const auto bytes_of = [&](std::int64_t n) {
    return static_cast<std::size_t>(n) * size_of(type_);
  };
  working_bytes_ = std::max(working_bytes_, bytes_of(begin + elements));
  number_bytes_ += bytes_of(elements);
  code_bytes_ += bytes;
}

void CodedWeights::allocate() {
  const auto elements = static_cast<std::int64_t>(working_bytes_ / size_of(type_));
  working_ =
      Buffer(device_, type_, {elements}, MemoryClass::workspace, "decoded weights");
}

void CodedWeights::fetch(int module, Direction direction) {
  others_.fetch(module, direction);
  decode(module);
}

void CodedWeights::decode(int module) {
  const auto found = modules_.find(module);
  if (found == modules_.end() || decoded_ == module) return;
  if (decoded_ >= 0)
    for (const Weight& weight : modules_.at(decoded_)) weight.param->value = {};
  Stream stream(device_);
  for (const Weight& weight : found->second) {
    const Shape shape = weight.param->shape;
    const TensorView value =
        working_.view().rows(weight.begin, shape.elements()).reshape(shape);
    for (const PlacedCodes& part : weight.codes) {
      const CodedMatrix& matrix = part.codes.matrix;
      kernels::decode_matrix(stream, matrix,
                             value.rows(part.begin[0], matrix.shape[0])
                                 .columns(part.begin[1], matrix.shape[1]));
    }
    weight.param->value = value;
  }
  decoded_ = module;
}

}  // namespace trireme::model
