// CodeWriter: one way to store the matrices of a Hugging Face folder as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/code_book.hpp"
#include "base/memory.hpp"
#include "convert/folder_place.hpp"
#include "io/json_fields.hpp"
#include "io/safetensors.hpp"

namespace trireme::convert {

// One way is one derived class. Matrices are [outputs, inputs], as the model has them.
class CodeWriter {
 public:
  CodeWriter() = default;
  CodeWriter(const CodeWriter&) = delete;
  CodeWriter& operator=(const CodeWriter&) = delete;
  virtual ~CodeWriter() = default;

  // Throws Error(bad_content) for a matrix that has no codes of this way in its place.
  virtual void check(const model::WholeTensor& whole, const FolderPlace& place) const = 0;
  // What a reader of such a matrix makes wrong, as a sentence about it; "": nothing.
  virtual std::string_view caution(const Shape& /*shape*/) const { return {}; }
  // The tensors of a folder that the matrix "X.weight" is stored in, the codes first.
  // dtype: of its numbers.
  virtual std::vector<io::SafetensorsTensor> tensors(const std::string& name,
                                                     const Shape& shape,
                                                     DType dtype) const = 0;
  // All of these in the order of tensors(), made of the matrix (dense, on the host). I8
  // is kept as U8. Throws Error(bad_content) for numbers that have no codes.
  std::vector<Buffer> encode(const std::string& name, const TensorView& numbers) const;
  // `quantization_config` of config.json. kept: modules of linear layers that stay
  // numbers.
  virtual io::Json config(DType dtype, const std::vector<std::string>& kept) const = 0;

 private:
  virtual void fill(const std::string& name, const TensorView& numbers,
                    const std::vector<Buffer>& out) const = 0;
};

using CodeWriterPtr = std::unique_ptr<const CodeWriter>;

// bitsandbytes: blocks of 64 codes, whose largest magnitudes are codes themselves with
// `nested`, and LLM.int8().
CodeWriterPtr four_bit_writer(FourBitType type, bool nested);
CodeWriterPtr int8_writer();
// compressed-tensors: E4M3 with a scale for each output, and packed integers of 4 bits
// with a scale for each 128 inputs.
CodeWriterPtr channel_fp8_writer();
CodeWriterPtr packed_int4_writer();
// E4M3 with a scale for each 128 x 128 block, as DeepSeek-V3 has it.
CodeWriterPtr block_fp8_writer();

// Parts of them.

io::SafetensorsTensor stored_tensor(const std::string& name, DType dtype,
                                    std::vector<std::int64_t> extents);
// Row i as f32. Throws Error(bad_content), with the tensor's name, for numbers that are
// infinite or none.
void take_row(const std::string& name, const TensorView& matrix, std::int64_t i,
              std::vector<float>& numbers);
// Throws Error(bad_content) where the folder has the matrix as [inputs, outputs], which
// `library` does not read as codes.
void refuse_transposed(std::string_view library, const FolderPlace& place);

}  // namespace trireme::convert
