// The codes of a weight: those of its boxes.
// SPDX-License-Identifier: Apache-2.0
#include "io/param_codes.hpp"

namespace trireme::io {

std::size_t param_code_bytes(const CodeSource& source, const Param& param) {
  if (param.shape.rank() != 2) return 0;
  std::size_t sum = 0;
  for (const NamedBox& named : param.boxes) {
    if (named.whole.rank() != 2 || named.extent.elements() == 0) return 0;
    const std::size_t bytes = source.code_bytes("model/" + named.tensor, named.whole,
                                                named.global_begin, named.extent);
    if (bytes == 0) return 0;
    sum += bytes;
  }
  return sum;
}

std::size_t kept_code_bytes(const TensorSource& source, const Param& param) {
  const auto* const coded = dynamic_cast<const CodeSource*>(&source);
  return coded == nullptr || param.table ? 0 : param_code_bytes(*coded, param);
}

std::vector<PlacedCodes> read_param_codes(const CodeSource& source, const Param& param,
                                          Device device) {
  std::vector<PlacedCodes> all;
  for (const NamedBox& named : param.boxes)
    all.push_back(
        {named.local_begin,
         moved_to(device, source.read_codes("model/" + named.tensor, named.whole,
                                            named.global_begin, named.extent))});
  return all;
}

void read_param(const TensorSource& source, const Param& param, const TensorView& value) {
  for (const NamedBox& named : param.boxes) {
    TensorView box = value.rows(named.local_begin[0], named.extent[0]);
    if (param.shape.rank() == 2) box = box.columns(named.local_begin[1], named.extent[1]);
    source.read("model/" + named.tensor, named.whole, named.global_begin, box);
  }
}

}  // namespace trireme::io
