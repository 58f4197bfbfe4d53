// MergedAdapters: a model's tensors with adapters added to them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "io/code_source.hpp"
#include "io/tensor_source.hpp"
#include "model/adapted_modules.hpp"
#include "model/model_config.hpp"

namespace trireme::convert {

// Matrices by their names in a checkpoint, and what their product is multiplied with.
struct AddedAdapter {
  std::shared_ptr<const io::TensorSource> tensors;
  nn::AdapterConfig config;
  double weight = 1;  // below 0: it is taken away again
  std::function<bool(const std::string& tensor)> has;
};

// Reads W + sum of weight s B A where there is a B A. A DoRA adapter, and one that holds
// a whole tensor in place of the model's, adds weight times the difference that it makes
// alone; a whole tensor of the weight 1 that no other adapter changes is read as it is.
// Products and their sum are made in double and, with W in f32 (in f64 for f64), rounded
// once to the type that is asked for.
class MergedAdapters : public io::TensorSource, public io::CodeSource {
 public:
  MergedAdapters(std::shared_ptr<const io::TensorSource> base,
                 std::vector<AddedAdapter> adapters)
      : base_(std::move(base)),
        codes_(dynamic_cast<const io::CodeSource*>(base_.get())),
        adapters_(std::move(adapters)) {}

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;
  // What an adapter changes is numbers.
  std::size_t code_bytes(const std::string& path, const Shape& whole, const Shape& begin,
                         const Shape& extent) const override;
  OwnedCodes read_codes(const std::string& path, const Shape& whole, const Shape& begin,
                        const Shape& extent) const override;

 private:
  // Whether a matrix of the model has a product of an adapter added to it, and whether an
  // adapter has a tensor in place of the model's.
  bool is_adapted(const std::string& name, const Shape& whole) const;
  bool is_replaced(const std::string& name) const;
  // The adapter whose tensor is read as it is: it has the weight 1, and no other changes
  // the tensor. Null where there is none.
  const AddedAdapter* sole_owner(const std::string& name, const Shape& whole) const;
  // What is read.
  struct Box {
    const std::string& path;
    const Shape &whole, &begin;
  };
  // A box of a matrix with a DoRA adapter.
  struct DoraBox {
    const Box& of;
    const std::string& module;
    std::int64_t rank;
    double scale;
  };
  void add_dora(const AddedAdapter& adapter, const DoraBox& box,
                const TensorView& sum) const;
  // sum (f64) += the change that an adapter makes by a whole tensor, or by matrices.
  void add_whole(const AddedAdapter& adapter, const Box& box, const TensorView& base,
                 const TensorView& sum) const;
  void add_matrices(const AddedAdapter& adapter, const Box& box,
                    const TensorView& sum) const;

  std::shared_ptr<const io::TensorSource> base_;
  const io::CodeSource* codes_;  // the same, or null
  std::vector<AddedAdapter> adapters_;
};

// The adapter in a folder, with this weight. Throws as AdapterFolder does, and
// Error(command_line) for a weight below 0 of one that cannot be taken away again.
AddedAdapter added_adapter(const std::string& folder, const model::ModelConfig& model,
                           double weight);
// The adapter that a checkpoint itself holds.
AddedAdapter own_adapter(std::shared_ptr<const io::CheckpointReader> checkpoint,
                         const nn::AdapterConfig& config);

}  // namespace trireme::convert
