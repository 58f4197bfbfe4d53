// RotaryTables: the tables of cosines and sines of a stage, for each kind of layer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/memory.hpp"
#include "model/model_config.hpp"
#include "nn/rotary_table.hpp"

namespace trireme::model {

// Which positions a stage meets. any: texts of every length up to `positions`, as
// generation has them; else all have those of the model.
struct TextLengths {
  std::int64_t positions = 0;
  bool any = false;
};

class RotaryTables {
 public:
  // For these layers; dtype: of activations. No tables where none of them turns.
  RotaryTables(const ModelConfig& config, const Range& layers, const TextLengths& lengths,
               DType dtype, Device device);

  // Of layer `layer`, which may not turn; the tables are this object's.
  nn::RotaryTable of(const ModelConfig& config, std::int64_t layer) const;
  // Before a pass over rows that turn as in a text of `length` positions: where each
  // length has angles of its own (dynamic), fills the table of texts beyond the original
  // length.
  void prepare(Stream& stream, const ModelConfig& config, std::int64_t length) const;
  std::size_t bytes() const;

 private:
  // Of layers in general, those in long texts where both lengths may come, and those of
  // layers with a window. Where each length has angles of its own, the first has in each
  // row those of a text that ends there.
  std::optional<Buffer> all_, beyond_, sliding_;
};

}  // namespace trireme::model
