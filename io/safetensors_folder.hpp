// The tensors of a Hugging Face folder: one safetensors file, or shards and their index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/safetensors.hpp"
#include "io/stored_boxes.hpp"

namespace trireme::io {

inline constexpr auto safetensors_name = "model.safetensors";
inline constexpr auto safetensors_index_name = "model.safetensors.index.json";

// Files are opened without following links and read only where a box asks for it. For one
// thread at a time.
class SafetensorsFolder {
 public:
  // Reads `model.safetensors` or, where there is none, the index and the headers of its
  // shards. Throws Error(missing_input) when the folder holds neither, Error(bad_content)
  // naming the file when it holds pickle files only, when a shard is missing or breaks a
  // rule of the format, when the index names a file outside of the folder, or when a
  // tensor is in two shards, or in another than the index says.
  explicit SafetensorsFolder(const std::string& path);
  // The same of one file of the folder, which must be there; Error(bad_content) where a
  // pickle file of its name is in its place.
  SafetensorsFolder(const std::string& path, const std::string& file);

  struct Tensor {
    std::string file;
    SafetensorsTensor entry;
  };
  // Sorted by name.
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;
  const std::vector<std::string>& shards() const { return shards_; }
  const std::string& path() const { return files_.path(); }

  // Fills `out` (on the host) with the box at `begin`, converting between floating types,
  // or between integers. Throws Error(bad_content) for a type that does not convert.
  void read(const Tensor& tensor, const Shape& begin, const TensorView& out);
  // Whether two tensors have one type, which is one of DType, one shape, with a dim, and
  // the same bytes.
  bool are_same(const Tensor& a, const Tensor& b);
  // The file with the tensor, until another one is read.
  const PlainFile& file_of(const Tensor& tensor) { return files_.open(tensor.file); }

 private:
  void read_index();
  void add(const std::string& file);

  PlainFiles files_;
  std::vector<std::string> shards_;
  std::vector<Tensor> tensors_;
};

}  // namespace trireme::io
