// QuantizedMatrix: a matrix of a Hugging Face folder that is stored as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/coded_matrix.hpp"
#include "convert/quantization.hpp"
#include "io/safetensors_folder.hpp"

namespace trireme::convert {

// One way to store codes is one derived class. Matrices are [outputs, inputs], as the
// model has them.
class QuantizedMatrix {
 public:
  using Stored = io::SafetensorsFolder::Tensor;

  QuantizedMatrix() = default;
  QuantizedMatrix(const QuantizedMatrix&) = delete;
  QuantizedMatrix& operator=(const QuantizedMatrix&) = delete;
  virtual ~QuantizedMatrix() = default;

  // The codes of the box, which has elements, and what they stand for, on the host.
  // Throws as SafetensorsFolder::read() does.
  virtual OwnedCodes read(io::SafetensorsFolder& files, const Shape& begin,
                          const Shape& extent) const = 0;
  // What its elements are called: "NF4", "INT4".
  virtual std::string_view type_name() const = 0;
  // How read() lays out the scales of a box; none where they would be as many as the
  // elements, and codes are no way to save memory.
  struct Held {
    CodeType type = CodeType::four_bits;
    ScaleLayout layout{};
    bool zeros = false;
    std::size_t bytes(const Shape& extent) const;
  };
  virtual std::optional<Held> held(const Shape& begin, const Shape& extent) const = 0;

  // The tensors of the folder that it is made of.
  const std::vector<const Stored*>& stored() const { return stored_; }

 protected:
  std::vector<const Stored*> stored_;
};

// What a matrix "X.weight" of the model is looked for in.
struct QuantizedSearch {
  const Quantization& how;
  std::string name;  // "X.weight"
  Shape shape;       // of the model's matrix
  std::function<const QuantizedMatrix::Stored*(const std::string&)> find;
  io::SafetensorsFolder& files;

  // "X" and `end`.
  std::string beside(std::string_view end) const { return beside_weight(name, end); }
  const QuantizedMatrix::Stored* find_beside(std::string_view end) const {
    return find(beside(end));
  }
  // Throws Error(bad_content) where there is no such tensor: "'X.weight' holds codes,
  // whose scales ... are missing".
  const QuantizedMatrix::Stored& need(const std::string& tensor,
                                      std::string_view what) const;
};

using FoundMatrix = std::shared_ptr<const QuantizedMatrix>;

// The matrix as the folder's way to quantize stores it; null where it is not quantized.
// Throws Error(bad_content) that says which tensor is missing, or has another shape or
// type.
FoundMatrix find_quantized(const QuantizedSearch& search);

// Fills `out` (floating, on the host) with the numbers of the box at `begin`.
void read_matrix_numbers(const QuantizedMatrix& matrix, io::SafetensorsFolder& files,
                         const Shape& begin, const TensorView& out);

// A box of FP8 or MXFP4, which has elements, as codes. Throws as read_quantized() does.
OwnedCodes read_codes(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                      const FolderPlace& place, const Shape& begin, const Shape& extent);
// Bytes of these.
std::size_t bytes_held(const QuantizedTensor& tensor, const Shape& begin,
                       const Shape& extent);

// Those of one way each.
FoundMatrix find_bitsandbytes(const QuantizedSearch& search);
FoundMatrix find_compressed(const QuantizedSearch& search);
FoundMatrix find_gptq(const QuantizedSearch& search);
FoundMatrix find_awq(const QuantizedSearch& search);

// Throws Error(bad_content) unless a stored tensor has these extents, and a type among
// those named.
void expect_stored(const QuantizedMatrix::Stored& stored,
                   const std::vector<std::int64_t>& extents,
                   std::initializer_list<std::string_view> types);
// Its bytes as elements of `dtype` and of one dim: [begin, begin + count).
Buffer read_elements(io::SafetensorsFolder& files, const QuantizedMatrix::Stored& stored,
                     DType dtype, std::int64_t begin, std::int64_t count);
// A box of a matrix; I8 is read as U8.
Buffer read_matrix(io::SafetensorsFolder& files, const QuantizedMatrix::Stored& stored,
                   DType dtype, const Shape& begin, const Shape& extent);
// The type of products with these scales.
DType rounding_of(const QuantizedMatrix::Stored& scales);

// The code of `bits` bits that begins at a bit of words of 32, the lowest bit first. From
// one word to the next it is `stride`.
unsigned packed_bits(const std::int32_t* words, std::int64_t stride, std::int64_t bit,
                     int bits);
// Puts a code at column j of a row of codes of four bits.
void put_four_bits(std::uint8_t* row, std::int64_t j, unsigned code);

}  // namespace trireme::convert
