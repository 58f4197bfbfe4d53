// Weights of a folder that is written, as codes: which of them, and in what tensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.hpp"
#include "convert/folder_place.hpp"
#include "io/json_fields.hpp"
#include "io/safetensors.hpp"

namespace trireme::convert {

// NF4 in blocks of 64 and LLM.int8(), as bitsandbytes has them, and E4M3 with a scale for
// each output, as compressed-tensors has it.
enum class QuantizeTo : std::uint8_t { none, nf4, int8, fp8 };

// What becomes of a tensor of the model: codes are for the linear layers of blocks, but
// for routers and experts, which transformers does not keep in linear layers. `linear`:
// is a linear layer there, of numbers.
enum class Written : std::uint8_t { numbers, linear, codes };
Written written_as(const model::WholeTensor& whole, const FolderPlace& place);

// The tensors of a folder that a matrix of codes is stored in. dtype: of its numbers.
std::vector<io::SafetensorsTensor> coded_tensors(QuantizeTo to, const std::string& name,
                                                 const Shape& shape, DType dtype);

// All of these, made of the matrix (dense, on the host, of that type): in the order of
// coded_tensors(). Throws Error(bad_content) for numbers that have no codes.
std::vector<Buffer> encode_matrix(QuantizeTo to, const std::string& name,
                                  const TensorView& numbers);

// `quantization_config` of config.json. kept: modules of linear layers that stay numbers.
io::Json quantization_block(QuantizeTo to, DType dtype,
                            const std::vector<std::string>& kept);

}  // namespace trireme::convert
