// FolderPlace: where a tensor of the model lies in a Hugging Face folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/hugging_face.hpp"
#include "model/model_config.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::convert {

// A tensor of the folder that is the model's, copied or transposed, or that holds it
// among those of other experts: see model::StackedPart.
struct FolderPlace {
  std::string name;
  Shape shape;  // of the folder's tensor
  model::Transform transform = model::Transform::copy;
  std::int64_t expert = -1;  // below 0: the tensor is not of all experts
  std::int64_t step = 1, first = 0;
  bool by_rows = false;  // `first` is a row, and no dim is transposed

  bool stacked() const { return expert >= 0; }
  // The box of the folder's tensor that holds the model's at `begin` of `extent`.
  struct Box {
    Shape begin, extent;
  };
  Box box_of(const Shape& begin, const Shape& extent) const;
};

FolderPlace place_of(const model::HuggingFaceRow& row, const model::ModelConfig& model,
                     const model::WholeTensor& whole);
// The same in a folder that has one tensor of all experts (row.stacks_too).
FolderPlace stacked_place_of(const model::HuggingFaceRow& row,
                             const model::ModelConfig& model,
                             const model::WholeTensor& whole);

// `out` (written; rows may be strided) from its box of the folder's tensor, which is
// dense; elements of one type, on the host.
void from_folder(const FolderPlace& place, const TensorView& box, const TensorView& out);
// The elements of the whole folder's tensor (dense) that are those of `from`.
void to_folder(const FolderPlace& place, const TensorView& from, const TensorView& whole);

// "X" and `end`: a tensor beside the matrix "X.weight".
std::string beside_weight(const std::string& name, std::string_view end);

}  // namespace trireme::convert
