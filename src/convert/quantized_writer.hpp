// Weights of a folder that is written, as codes: which of them, and in what way.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "convert/code_writer.hpp"

namespace trireme::convert {

enum class QuantizeTo : std::uint8_t { none, nf4, fp4, int8, fp8, fp8_blocks, int4 };

// What `convert --quantize` calls them.
std::string_view name_of(QuantizeTo to);
std::optional<QuantizeTo> quantize_to(std::string_view name);
// All names but "none", as a sentence lists them: "nf4, fp4 and int8".
std::string ways_to_quantize();

struct Quantize {
  QuantizeTo to = QuantizeTo::none;
  bool nested = false;         // double quantization, of nf4 and fp4
  bool keeps_experts = false;  // as numbers, of nf4, fp4 and int8

  bool of_bitsandbytes() const;
};

// Null of none.
CodeWriterPtr code_writer(const Quantize& how);

// What becomes of a tensor of the model: codes are for the linear layers of blocks and of
// experts that have tensors of their own. Routers, the head and what else is small stay
// numbers. `linear`: is a linear layer, of numbers. `expert`: is a matrix of codes of an
// expert. `stacked`: is one of the experts that lie in one tensor, which no library reads
// as codes of these ways.
enum class Written : std::uint8_t { numbers, linear, stacked, expert, codes };
Written written_as(const model::WholeTensor& whole, const FolderPlace& place);

}  // namespace trireme::convert
