// FilledRows: one buffer for all boxes.
// SPDX-License-Identifier: Apache-2.0
#include "io/filled_rows.hpp"

#include "base/row_windows.hpp"
#include "io/digest.hpp"

namespace trireme::io {

std::string FilledRows::write(Hdf5File& file, const std::string& dataset,
                              std::int64_t begin, const TensorBox& box, bool alone) {
  const DType dtype = box.data.dtype();
  const Shape& shape = box.data.shape();
  if (shape.elements() == 0) return Digest().text();
  const std::int64_t count = shape[0], in_row = shape.elements() / count,
                     row_bytes = in_row * static_cast<std::int64_t>(size_of(dtype)),
                     most =
                         box.data.device().is_meta() ? count * row_bytes : window_bytes,
                     held_bytes = rows_at_once(count, row_bytes, most) * row_bytes;
  if (static_cast<std::int64_t>(memory_.bytes()) < held_bytes) {
    memory_ = Buffer();  // given up before the larger one is made
    memory_ = Buffer(Device::host(), DType::u8, {held_bytes}, MemoryClass::data,
                     "rows for a checkpoint");
  }
  Digest digest;
  Shape rows = shape;
  for (const auto [row, some] : RowWindows(count, row_bytes, most)) {
    rows[0] = some;
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
