// Quantized weights of a Hugging Face folder: what they are, and their numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

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
    mxfp4,
    // What each tensor is says itself: codes of 4 bits, or bytes with a scale a row.
    bitsandbytes,
    compressed,  // of compressed-tensors, by the schemes below
    gptq,
    awq
  };
  Kind kind = Kind::none;
  std::int64_t rows = 0, columns = 0;  // of a block of FP8; 0: a tensor has one scale
  // Of GPTQ and AWQ: bits of a code, inputs of a group (0: all), and whether zero points
  // are stored less one.
  int bits = 4;
  std::int64_t group = 0;
  bool zeros_less_one = false;

  // How compressed-tensors stores the weights of a group of modules.
  struct Scheme {
    enum class Strategy : std::uint8_t { tensor, channel, group, block };
    Strategy strategy = Strategy::tensor;
    int bits = 8;
    bool floating = false, symmetric = true;
    std::int64_t rows = 0, columns = 0;  // of a block; of a group the inputs alone
  };
  std::vector<Scheme> schemes{};
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
