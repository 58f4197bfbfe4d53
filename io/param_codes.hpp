// The codes of a weight whose parts a source has as codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/param.hpp"
#include "io/code_source.hpp"
#include "io/tensor_source.hpp"

namespace trireme::io {

// Bytes that all boxes of a Param would take as codes; 0 unless it is a matrix that has
// codes for each of them. Throws as the source does.
std::size_t param_code_bytes(const CodeSource& source, const Param& param);

// The same of a source that may have codes, for a weight that can be kept as these: 0 of
// tables, whose rows are looked up.
std::size_t kept_code_bytes(const TensorSource& source, const Param& param);

// These codes on `device`, each with the place of its box in the Param.
std::vector<PlacedCodes> read_param_codes(const CodeSource& source, const Param& param,
                                          Device device = Device::host());

// The numbers of all boxes of a Param into `value`, which has its shape.
void read_param(const TensorSource& source, const Param& param, const TensorView& value);

}  // namespace trireme::io
