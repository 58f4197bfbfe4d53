// The safetensors format: what a file holds, read with every check, and written.
// SPDX-License-Identifier: Apache-2.0
//
// A file is 8 bytes (the length of the header, little-endian), the header (JSON, padded
// with spaces), and the elements of the tensors, one after the other without holes.
// Source: the format's own description and its reference implementation, whose names of
// errors the messages give.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.hpp"
#include "base/directory.hpp"
#include "base/tensor_view.hpp"
#include "io/plain_file.hpp"

namespace trireme::io {

// A type of elements, as a row of the format's table.
struct SafetensorsType {
  std::string_view name;  // "BF16"
  int bits;
  std::optional<DType> dtype;  // ours, if there is one
};

// The safetensors name and size of a DType. Every DType has one; throws Error(internal)
// otherwise. Source: safetensors README, "Format".
const SafetensorsType& safetensors_type(DType dtype);

struct SafetensorsTensor {
  std::string name;
  const SafetensorsType* type = nullptr;
  std::vector<std::int64_t> extents;  // of any rank; 0 and none are legal
  std::int64_t begin = 0, end = 0;    // bytes in the file

  // As a Shape; none beyond four dims.
  std::optional<Shape> shape() const;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;       // in the order of their bytes
  std::map<std::string, std::string> metadata;  // "__metadata__"
};

// Longest header that is read.
inline constexpr std::int64_t most_safetensors_header = 100'000'000;

// Reads the header of a file. Throws Error(bad_content) that names the file, the tensor
// and the rule that is broken; and as PlainFile::read() does.
SafetensorsHeader read_safetensors(const PlainFile& file);

// What one file will hold, and its bytes but for the elements.
class SafetensorsPlan {
 public:
  // Names, types and shapes in any order; sorts them as the reference does: larger types
  // first, then by name.
  explicit SafetensorsPlan(std::vector<SafetensorsTensor> tensors);

  // In the order in which their elements are to be written.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::string& head() const { return head_; }
  std::int64_t bytes() const { return bytes_; }  // of the whole file

 private:
  std::vector<SafetensorsTensor> tensors_;
  std::string head_;
  std::int64_t bytes_ = 0;
};

// Bytes of the elements of a tensor of our types.
std::int64_t safetensors_bytes(const SafetensorsTensor& tensor);

// Writes a new file of a folder, tensor after tensor.
class SafetensorsWriter {
 public:
  // Writes the header. Throws Error(cannot_create) or Error(io), as the others do.
  SafetensorsWriter(const Directory& folder, const std::string& name,
                    const SafetensorsPlan& plan);

  // The next elements of the file; dense, on the host. Tensors may come in pieces.
  void write(const TensorView& data);
  // Syncs the file. Throws Error(internal) unless every byte was written.
  void close();

 private:
  void put(std::string_view bytes);

  std::string path_;
  Descriptor file_;
  std::int64_t left_ = 0;
};

}  // namespace trireme::io
