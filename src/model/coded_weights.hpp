// CodedWeights: weights that are kept as codes, and are numbers while their module runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <vector>

#include "base/coded_matrix.hpp"
#include "base/weight_access.hpp"

namespace trireme::model {

// Weights lie in memory as codes; those of one module at a time, the last that was
// fetched, as numbers in a working memory that all modules share. What modules compute is
// therefore, to the bit, what they compute of a model of decoded weights. The weights
// are frozen: they have no gradients, and whoever owns the others is told nothing of
// them.
class CodedWeights final : public WeightAccess {
 public:
  // others: who owns the other weights, told the same; it outlives this. type: that the
  // weights are decoded to.
  CodedWeights(WeightAccess& others, Device device, DType type)
      : others_(others), device_(device), type_(type) {}

  // From now on `param`, a matrix of this module, has its value while the module runs.
  // codes: all its boxes; none on the meta device, where `bytes` says what they take.
  void add(int module, Param& param, std::vector<PlacedCodes> codes, std::size_t bytes);
  // The working memory, once all are added.
  void allocate();

  // Calls body(param, codes) for each, where codes are of the param's boxes in order.
  template <class Body>
  void each(const Body& body) const {
    for (const auto& [module, weights] : modules_)
      for (const Weight& weight : weights) body(*weight.param, weight.codes);
  }

  bool empty() const { return modules_.empty(); }
  // Of codes and scales; of the numbers of one module; of all modules, if they were
  // numbers.
  std::size_t code_bytes() const { return code_bytes_; }
  std::size_t working_bytes() const { return working_bytes_; }
  std::size_t number_bytes() const { return number_bytes_; }

  void fetch(int module, Direction direction) override;
  void release(int module) override { others_.release(module); }
  void open_gradients(int module) override { others_.open_gradients(module); }
  void close_gradients(int module) override { others_.close_gradients(module); }
  void ready(Param& param) override { others_.ready(param); }

 private:
  struct Weight {
    Param* param;
    std::vector<PlacedCodes> codes;
    std::int64_t begin;  // in the working memory
  };

  void decode(int module);

  WeightAccess& others_;
  Device device_;
  DType type_;
  std::map<int, std::vector<Weight>> modules_;
  Buffer working_;
  int decoded_ = -1;  // whose numbers lie in the working memory
  std::size_t code_bytes_ = 0, working_bytes_ = 0, number_bytes_ = 0;
};

}  // namespace trireme::model
