// FilledRows: one buffer for all boxes.
// SPDX-License-Identifier: Apache-2.0
#include "io/filled_rows.hpp"

#include <algorithm>

#include "io/digest.hpp"

namespace trireme::io {

std::string FilledRows::write(Hdf5File& file, const std::string& dataset,
                              std::int64_t begin, const TensorBox& box, bool alone) {
  constexpr std::int64_t window_bytes = std::int64_t{4} << 20;
  const DType dtype = box.data.dtype();
  const Shape& shape = box.data.shape();
  if (shape.elements() == 0) return Digest().text();
  const std::int64_t count = shape[0], in_row = shape.elements() / count,
                     row_bytes = in_row * static_cast<std::int64_t>(size_of(dtype)),
                     at_once = box.data.device().is_meta()
                                   ? count
                                   : std::clamp<std::int64_t>(window_bytes / row_bytes, 1,
                                                              count);
  if (static_cast<std::int64_t>(memory_.bytes()) < at_once * row_bytes) {
    memory_ = Buffer();  // given up before the larger one is made
    memory_ = Buffer(Device::host(), DType::u8, {at_once * row_bytes}, MemoryClass::data,
                     "rows for a checkpoint");
  }
  Digest digest;
  Shape rows = shape;
  for (std::int64_t row = 0; row < count; row += at_once) {
    rows[0] = std::min(at_once, count - row);
    const TensorView part(memory_.view().raw(), dtype, rows);
    box.fill(row * in_row, part);
    if (alone)
      file.write_rows(dataset, row, part);
    else
      file.write_rows(dataset, begin + row * in_row, part.reshape({part.elements()}));
    digest.add(part.raw(), part.bytes());
  }
  return digest.text();
}

}  // namespace trireme::io
