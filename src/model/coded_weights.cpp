// CodedWeights: decoding a module's weights before it runs.
// SPDX-License-Identifier: Apache-2.0
#include "model/coded_weights.hpp"

#include <algorithm>
#include <utility>

#include "base/split.hpp"
#include "kernels/coded_matrix.hpp"

namespace trireme::model {

namespace {

std::int64_t aligned(std::int64_t elements) { return divide_up(elements, 64) * 64; }

}  // namespace

WeightCodes& CodedWeights::add(int module, Param& param, std::vector<PlacedCodes> codes,
                               std::size_t bytes) {
  require(param.shape.rank() == 2, "'{}' of shape {} is no matrix of codes", param.name,
          param.shape);
  const std::int64_t elements = param.shape.elements();
  number_bytes_ += bytes_of(elements);
  code_bytes_ += bytes;
  if (products_ == CodeProducts::yes && param.takes_codes) {
    read_.push_back({&param, {std::move(codes)}, 0});
    of_weight_ = std::max(of_weight_, elements);
    return read_.back().codes;
  }
  std::deque<Weight>& weights = modules_[module];
  std::int64_t begin = 0;
  if (!weights.empty())
    begin = aligned(weights.back().begin + weights.back().param->shape.elements());
  weights.push_back({&param, {std::move(codes)}, begin});
  of_module_ = std::max(of_module_, begin + elements);
  return weights.back().codes;
}

std::size_t CodedWeights::bytes_of(std::int64_t elements) const {
  return static_cast<std::size_t>(elements) * size_of(type_);
}

std::int64_t CodedWeights::working_elements() const {
  return read_.empty() ? of_module_ : aligned(of_module_) + of_weight_;
}

void CodedWeights::allocate() {
  working_ = Buffer(device_, type_, {working_elements()}, MemoryClass::workspace,
                    "decoded weights");
  for (Weight& weight : read_) {
    const Shape shape = weight.param->shape;
    weight.codes.numbers =
        working_.view().rows(aligned(of_module_), shape.elements()).reshape(shape);
    weight.param->codes = &weight.codes;
  }
}

void CodedWeights::fetch(int module, Direction direction) {
  others_.fetch(module, direction);
  decode(module);
}

TensorView CodedWeights::value_of(const Weight& weight) const {
  const Shape shape = weight.param->shape;
  return working_.view().rows(weight.begin, shape.elements()).reshape(shape);
}

void CodedWeights::show(int module) {
  const auto found = modules_.find(module);
  if (found == modules_.end()) return;
  for (const Weight& weight : found->second) weight.param->value = value_of(weight);
}

void CodedWeights::decode(int module) {
  const auto found = modules_.find(module);
  if (found == modules_.end() || decoded_ == module) return;
  if (decoded_ >= 0)
    for (const Weight& weight : modules_.at(decoded_)) weight.param->value = {};
  Stream stream(device_);
  for (const Weight& weight : found->second) {
    const TensorView value = value_of(weight);
    for (const PlacedCodes& part : weight.codes.boxes) {
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
