// Hdf5File: where elements lie, and reading, of virtual datasets too.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <memory>
#include <tuple>

#include "base/boxes.hpp"
#include "base/directory.hpp"
#include "io/element_convert.hpp"
#include "io/hdf5_dataset.hpp"
#include "io/hdf5_driver.hpp"

namespace trireme::io {

// A virtual dataset may not show another: HDF5 would follow it round in a circle.
BoxEntry Hdf5File::own_box(const std::string& name, DType dtype,
                           const Shape& shape) const {
  const Hdf5Lock lock;
  const Hdf5Id dataset = open_dataset(file_, path_, name, checked());
  const auto [found, extent] = description(dataset.get(), path_, name);
  // Boxes of a tensor that follow each other are stored as one row, even where they make
  // up a rectangle together.
  const bool flat = extent.rank() == 1 && extent[0] == shape.elements();
  require(found == dtype && (extent == shape || flat), Status::bad_content,
          "{}: the dataset '{}' is {} of {}, where {} of {} is expected", path_, name,
          name_of(found), extent, name_of(dtype), shape);
  const std::string wrong = why_not_dense(dataset.get(), dtype);
  require(wrong.empty(), Status::bad_content, "{}: the dataset '{}': {}", path_, name,
          wrong);
  const haddr_t at = extent.elements() > 0 ? H5Dget_offset(dataset.get()) : 0;
  return {last_name_of(path_), static_cast<std::int64_t>(at), origin_of(shape), shape,
          ""};
}

std::vector<BoxEntry> Hdf5File::boxes(const std::string& name) const {
  std::vector<Piece> pieces;
  DType dtype{};
  Shape whole;
  bool maps = false;
  {
    const Hdf5Lock lock;
    const Hdf5Id dataset = open_dataset(file_, path_, name, checked());
    std::tie(dtype, whole) = description(dataset.get(), path_, name);
    maps = is_virtual(dataset.get());
    if (maps) pieces = mapped_pieces(dataset.get(), path_, name);
  }
  if (whole.elements() == 0) return {};
  if (!maps) return {own_box(name, dtype, whole)};
  const Directory folder = Directory::to_read(parent_of(path_));
  std::map<std::string, std::unique_ptr<Hdf5File>> sources;
  std::vector<BoxEntry> boxes;
  for (const Piece& piece : pieces) {
    try {
      auto& source = sources[piece.file];
      if (!source) source = std::make_unique<Hdf5File>(PlainFile(folder, piece.file));
      std::int64_t elements = piece.extent.elements();
      for (const auto& part : piece.further_boxes) elements += part.second.elements();
      BoxEntry box =
          source->own_box(piece.source, dtype,
                          piece.further_boxes.empty() ? piece.extent : Shape{elements});
      box.begin = piece.begin;
      box.extent = piece.extent;
      boxes.push_back(box);
      for (const auto& [begin, extent] : piece.further_boxes) {
        box.offset += box.extent.elements() * static_cast<std::int64_t>(size_of(dtype));
        box.begin = begin;
        box.extent = extent;
        boxes.push_back(box);
      }
    } catch (const Error& error) {
      fail(Status::bad_content, "{}: the virtual dataset '{}' shows what is not read: {}",
           path_, name, error.what());
    }
  }
  const std::string wrong = why_not_whole(name, whole, boxes);
  require(wrong.empty(), Status::bad_content, "{}: {}", path_, wrong);
  return boxes;
}

void Hdf5File::read(const std::string& name, const Shape& begin,
                    const TensorView& out) const {
  {
    const Hdf5Lock lock;
    const Hdf5Id dataset = open_dataset(file_, path_, name, checked());
    if (!is_virtual(dataset.get())) {
      read_box(dataset.get(), name, begin, out);
      return;
    }
  }
  const auto [dtype, shape] = describe(name);
  check_box(path_, name, shape, begin, out.shape());
  check_types(name, dtype, out.dtype());
  PlainFiles files(parent_of(path_));
  read_boxes(files, boxes(name), dtype, begin, out);
}

void Hdf5File::read_all(const std::string& name, const TensorView& out) const {
  const Shape shape = describe(name).second;
  require(shape == out.shape(), Status::bad_content,
          "{}: the dataset '{}' has the shape {}, not {}", path_, name, shape,
          out.shape());
  read(name, origin_of(shape), out);
}

void Hdf5File::check_types(const std::string& name, DType stored, DType wanted) const {
  require(converts(stored, wanted), Status::bad_content,
          "{}: the dataset '{}' holds {}, which does not convert to {}", path_, name,
          name_of(stored), name_of(wanted));
}

}  // namespace trireme::io
