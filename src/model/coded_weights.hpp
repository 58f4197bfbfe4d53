// CodedWeights: weights that are kept as codes, and are numbers while their module runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "base/weight_access.hpp"
#include "base/weight_codes.hpp"

namespace trireme::model {

// Which weights products may read as codes (Param::codes): none, so that all of a module
// are numbers while it runs, as backward needs them; or those that take codes.
enum class CodeProducts : bool { no, yes };

// Weights lie in memory as codes; those of one module at a time, the last that was
// fetched, as numbers in a working memory that all modules share; or products read the
// codes. What modules compute is, to the bit, what they compute of a model of decoded
// weights. The weights are frozen: they have no gradients, and whoever owns the others is
// told nothing of them.
class CodedWeights final : public WeightAccess {
 public:
  // others: who owns the other weights, told the same; it outlives this. type: that the
  // weights are decoded to.
  CodedWeights(WeightAccess& others, Device device, DType type,
               CodeProducts products = CodeProducts::no)
      : others_(others), device_(device), type_(type), products_(products) {}

  // From now on `param`, a matrix of this module, has its value while the module runs.
  // codes: all its boxes; none on the meta device, and none as yet of a weight whose
  // boxes come later. `bytes` says what they take. Returns where they lie: they are there
  // from fetch() of their module to its release().
  WeightCodes& add(int module, Param& param, std::vector<PlacedCodes> codes,
                   std::size_t bytes);
  // The working memory, once all are added.
  void allocate();

  // Calls body(param, codes) for each, where codes are of the param's boxes in order.
  template <class Body>
  void each(const Body& body) const {
    for (const auto& [module, weights] : modules_)
      for (const Weight& weight : weights) body(*weight.param, weight.codes.boxes);
    for (const Weight& weight : read_) body(*weight.param, weight.codes.boxes);
  }

  bool empty() const { return code_bytes_ == 0; }
  // Of codes and scales; of the numbers of one module, or of one weight that products
  // read as codes; of all modules, if they were numbers.
  std::size_t code_bytes() const { return code_bytes_; }
  std::size_t working_bytes() const { return bytes_of(working_elements()); }
  std::size_t number_bytes() const { return number_bytes_; }

  void fetch(int module, Direction direction) override;
  // Gives the module's weights their shapes alone, for a pass that is only measured.
  void show(int module);
  void release(int module) override { others_.release(module); }
  void open_gradients(int module) override { others_.open_gradients(module); }
  void close_gradients(int module) override { others_.close_gradients(module); }
  void ready(Param& param) override { others_.ready(param); }

 private:
  struct Weight {
    Param* param;
    WeightCodes codes;
    std::int64_t begin;  // in the working memory
  };

  void decode(int module);
  TensorView value_of(const Weight& weight) const;
  std::size_t bytes_of(std::int64_t elements) const;
  std::int64_t working_elements() const;

  WeightAccess& others_;
  Device device_;
  DType type_;
  CodeProducts products_;
  std::map<int, std::deque<Weight>> modules_;  // weights that are decoded
  std::deque<Weight> read_;                    // those that products read
  // Elements of the working memory that the numbers of a module take at most; behind
  // these lie those of a weight that products read, of at most so many elements.
  std::int64_t of_module_ = 0, of_weight_ = 0;
  Buffer working_;
  int decoded_ = -1;  // whose numbers lie in the working memory
  std::size_t code_bytes_ = 0, number_bytes_ = 0;
};

}  // namespace trireme::model
