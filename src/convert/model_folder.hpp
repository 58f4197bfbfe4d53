// ModelFolder: a Hugging Face folder as a source of a model's tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "convert/folder_config.hpp"
#include "convert/folder_place.hpp"
#include "convert/quantization.hpp"
#include "convert/quantized_matrix.hpp"
#include "io/code_source.hpp"
#include "io/safetensors_folder.hpp"
#include "io/tensor_source.hpp"
#include "model/whole_tensors.hpp"

namespace trireme::convert {

// Where a tensor of the model lies in the folder.
struct FolderTensor {
  model::WholeTensor whole;
  FolderPlace place;
  const io::SafetensorsFolder::Tensor* stored = nullptr;  // numbers or codes
  QuantizedTensor quantized{};  // codes and scales; none where numbers are stored
  FoundMatrix matrix{};         // of the other ways to quantize

  bool is_quantized() const { return quantized.codes != nullptr || matrix != nullptr; }
  // What its elements are stored as: "BF16", "MXFP4".
  std::string_view type_name() const;
};

// Reads headers when it is made, and of the tensors only the boxes that are asked for.
class ModelFolder : public io::TensorSource, public io::CodeSource {
 public:
  // Throws as read_folder_config() and io::SafetensorsFolder do, and Error(bad_content)
  // that lists every tensor which is missing, has another shape or a type that does not
  // convert, or which the model does not have.
  explicit ModelFolder(const std::string& path);

  const FolderConfig& config() const { return config_; }
  // The type that a tensor has here; of a quantized one that of config.json, else bf16.
  DType dtype_of(const FolderTensor& tensor) const;
  // The same of the tensor of the model with this name. Throws Error(bad_content) where
  // there is none.
  DType dtype_of(const std::string& name) const;
  // In the model's order.
  const std::vector<FolderTensor>& tensors() const { return tensors_; }
  const io::SafetensorsFolder& files() const { return files_; }
  const std::string& path() const { return files_.path(); }

  void read(const std::string& path, const Shape& whole, const Shape& begin,
            const TensorView& out) const override;
  std::size_t code_bytes(const std::string& path, const Shape& whole, const Shape& begin,
                         const Shape& extent) const override;
  OwnedCodes read_codes(const std::string& path, const Shape& whole, const Shape& begin,
                        const Shape& extent) const override;

 private:
  // Throws Error(bad_content) where there is none of this shape.
  const FolderTensor& tensor_of(const std::string& path, const Shape& whole) const;
  void match();
  // Finds what is stored of a tensor; "" or what is wrong with it.
  std::string find_stored(FolderTensor& tensor) const;
  std::string find_scales(FolderTensor& tensor) const;
  // Whether it is one of codes; `wrong` is left empty unless they cannot be used.
  bool find_matrix(FolderTensor& tensor, std::string& wrong) const;
  // What else is stored, which the model has no place for, is added to `wrong`.
  void check_others(std::vector<std::string>& wrong) const;
  void check_tied_head() const;
  const io::SafetensorsFolder::Tensor* find(const std::string& name) const;

  FolderConfig config_;
  mutable io::SafetensorsFolder files_;  // which files are open is no state of the folder
  std::vector<FolderTensor> tensors_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

// The other files of a folder, which go with the model: tokenizer and settings of
// generation. Sorted.
std::vector<std::string> other_files(const Directory& folder);

// Whether a path is a folder with a config.json, and no checkpoint.
bool is_model_folder(const std::string& path);

// The tensors of a folder or a checkpoint; of the latter share `part` of `parts` of the
// bytes is compared with its digests. Throws as ModelFolder and io::CheckpointReader do.
std::unique_ptr<io::TensorSource> open_tensors(const std::string& path, int part,
                                               int parts);

}  // namespace trireme::convert
