// Quantized weights of a Hugging Face folder: what they are, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "convert/config_fields.hpp"
#include "convert/folder_place.hpp"
#include "io/safetensors_folder.hpp"

namespace trireme::convert {

// What `quantization_config` of a config.json says.
struct Quantization {
  enum class Kind : std::uint8_t {
    none,
    // E4M3 codes of a matrix "X.weight", each times the scale of its block: of
    // "X.weight_scale_inv", which despite its name multiplies, a row for each `rows` rows
    // and a column for each `columns` columns (the last block may be cut short). Source:
    // DeepSeek-AI, "DeepSeek-V3", 2024, section 3.3.
    fp8,
    // E2M1 codes of stacked experts, two in a byte, 32 along the inputs with one
    // exponent: "X_blocks" [E, outputs, inputs / 32, 16], "X_scales" [E, outputs, inputs
    // / 32], 2 to the power of the scale - 127. Source: "OCP Microscaling formats", 2023,
    // section 5.
    mxfp4
  };
  Kind kind = Kind::none;
  std::int64_t rows = 0, columns = 0;  // of a block of FP8; 0: a tensor has one scale
};

// Throws Error(bad_content) for a way to quantize that this program cannot read.
Quantization read_quantization(const ConfigFields& fields);

// A tensor of codes and that of their scales.
struct QuantizedTensor {
  using Stored = io::SafetensorsFolder::Tensor;
  Quantization how{};
  const Stored* codes = nullptr;
  const Stored* scales = nullptr;
};

// "" if codes and scales are those of a tensor of the model in its place, or what is
// wrong.
std::string why_unusable(const QuantizedTensor& tensor, const FolderPlace& place,
                         const Shape& whole);

// Fills `out` (floating, on the host) with the box at `begin` of the model's tensor: each
// number is code times scale, rounded to fp32 and then to out's type. Throws as
// SafetensorsFolder::read() does, and Error(bad_content) for a scale that is no number.
void read_quantized(io::SafetensorsFolder& files, const QuantizedTensor& tensor,
                    const FolderPlace& place, const Shape& begin, const TensorView& out);

}  // namespace trireme::convert
