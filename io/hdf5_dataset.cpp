// Datasets of HDF5 files of any origin, and what is refused of them.
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_dataset.hpp"

#include <algorithm>
#include <array>

#include "base/boxes.hpp"
#include "io/element_convert.hpp"
#include "io/hdf5_driver.hpp"

namespace trireme::io {
namespace {

// Of what other programs chose and a message repeats, or memory is taken for.
constexpr std::size_t most_name_bytes = 4096;
constexpr std::int64_t most_chunk_bytes = std::int64_t{1} << 30;
// A file that holds this many times its own size in elements is a forgery: deflate packs
// 1,032 to 1, and all that other filters leave of equal values is a few bytes a chunk.
constexpr std::int64_t most_packed = 65536;

// The file that an external link names.
std::string target_of(hid_t file, const std::string& link, std::size_t bytes) {
  std::vector<char> value(std::min(bytes, most_name_bytes) + 1, '\0');
  const char *target = nullptr, *object = nullptr;
  unsigned flags = 0;
  if (bytes > most_name_bytes ||
      H5Lget_val(file, link.c_str(), value.data(), bytes, H5P_DEFAULT) < 0 ||
      H5Lunpack_elink_val(value.data(), bytes, &flags, &target, &object) < 0)
    return "?";
  return target;
}

void check_links(hid_t file, const std::string& path, const std::string& name) {
  const std::string relative = relative_name(name);
  for (std::size_t at = relative.find('/');; at = relative.find('/', at + 1)) {
    const std::string part = relative.substr(0, at);
    H5L_info_t link{};
    if (H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0 ||
        H5Lget_info(file, part.c_str(), &link, H5P_DEFAULT) < 0)
      fail(Status::bad_content, "{}: has no dataset '{}'", path, name);
    if (link.type == H5L_TYPE_EXTERNAL)
      fail(Status::bad_content,
           "{}: '{}' is a link into another file, '{}', which is not followed; copy the "
           "dataset into this file, for example with h5copy",
           path, part, target_of(file, part, link.u.val_size));
    require(
        link.type == H5L_TYPE_HARD, Status::bad_content,
        "{}: '{}' is a symbolic link, which is not followed; copy the dataset to that "
        "name, for example with h5copy",
        path, part);
    if (at == std::string::npos) return;
  }
}

Hdf5Id creation_of(hid_t dataset, const std::string& path, const std::string& name) {
  Hdf5Id creation(H5Dget_create_plist(dataset), H5Pclose);
  if (!creation.valid())
    fail(Status::bad_content, "{}: cannot see how the dataset '{}' is stored: {}", path,
         name, hdf5_reason());
  return creation;
}

void check_filters(hid_t creation, const std::string& path, const std::string& name) {
  constexpr std::array known = {H5Z_FILTER_DEFLATE,    H5Z_FILTER_SHUFFLE,
                                H5Z_FILTER_FLETCHER32, H5Z_FILTER_SZIP,
                                H5Z_FILTER_NBIT,       H5Z_FILTER_SCALEOFFSET};
  const int count = H5Pget_nfilters(creation);
  for (int i = 0; i < count; ++i) {
    std::size_t values = 0;
    unsigned flags = 0, config = 0;
    const H5Z_filter_t filter = H5Pget_filter2(creation, static_cast<unsigned>(i), &flags,
                                               &values, nullptr, 0, nullptr, &config);
    const bool ours = std::find(known.begin(), known.end(), filter) != known.end();
    require(
        ours && H5Zfilter_avail(filter) > 0, Status::bad_content,
        "{}: the dataset '{}' is packed by the filter {}, which this program does not "
        "load; unpack it, for example with h5repack -f NONE",
        path, name, filter);
  }
}

// Bytes of all elements; -1: more than can be.
std::int64_t bytes_in(hid_t dataset) {
  const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr) < 0)
    return -1;
  std::int64_t bytes = static_cast<std::int64_t>(H5Tget_size(type.get()));
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL ||
      std::find(extents.begin(), extents.begin() + rank, 0U) != extents.begin() + rank)
    return 0;
  for (int i = 0; i < rank; ++i) {
    const hsize_t extent = extents[static_cast<std::size_t>(i)];
    if (extent > static_cast<hsize_t>((std::int64_t{1} << 62) / bytes)) return -1;
    bytes *= static_cast<std::int64_t>(extent);
  }
  return bytes;
}

void check_size(hid_t file, hid_t dataset, hid_t creation, const std::string& path,
                const std::string& name) {
  const std::int64_t bytes = bytes_in(dataset);
  hsize_t size = 0;
  H5Fget_filesize(file, &size);
  const auto in_file = static_cast<std::int64_t>(size);
  const auto implausible = [&](const char* what) {
    fail(Status::bad_content, "{}: the dataset '{}' cannot be: {} in a file of {} bytes",
         path, name, what, in_file);
  };
  if (bytes < 0) implausible("more than 2^62 bytes of elements");
  if (bytes == 0) return;
  if (H5Pget_layout(creation) == H5D_CONTIGUOUS) {
    const haddr_t at = H5Dget_offset(dataset);
    require(at != HADDR_UNDEF, Status::bad_content,
            "{}: the elements of the dataset '{}' were never written", path, name);
    if (at > size || bytes > in_file - static_cast<std::int64_t>(at))
      implausible("its elements lie beyond the end");
  } else if (H5Pget_layout(creation) == H5D_CHUNKED) {
    std::array<hsize_t, H5S_MAX_RANK> extents{};
    const int rank = H5Pget_chunk(creation, H5S_MAX_RANK, extents.data());
    const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
    double chunk = static_cast<double>(H5Tget_size(type.get()));
    for (int i = 0; i < rank; ++i)
      chunk *= static_cast<double>(extents[static_cast<std::size_t>(i)]);
    if (chunk > static_cast<double>(most_chunk_bytes)) implausible("a chunk above 1 GiB");
    if (bytes / most_packed > in_file) implausible(format("{} bytes", bytes).c_str());
  }
}

void check_storage(hid_t file, hid_t dataset, const std::string& path,
                   const std::string& name) {
  const Hdf5Id creation = creation_of(dataset, path, name);
  if (H5Pget_layout(creation.get()) == H5D_VIRTUAL) {
    mapped_pieces(dataset, path, name);
    return;
  }
  const int external = H5Pget_external_count(creation.get());
  if (external != 0) {
    std::array<char, 256> other{};
    off_t offset = 0;
    hsize_t bytes = 0;
    H5Pget_external(creation.get(), 0, other.size() - 1, other.data(), &offset, &bytes);
    fail(Status::bad_content,
         "{}: the elements of the dataset '{}' lie in another file, '{}', which is not "
         "opened; copy them into this one, for example with h5repack",
         path, name, other.data());
  }
  check_filters(creation.get(), path, name);
  check_size(file, dataset, creation.get(), path, name);
}

std::string text_of(hid_t creation, std::size_t index,
                    ssize_t (*get)(hid_t, std::size_t, char*, std::size_t)) {
  const ssize_t length = get(creation, index, nullptr, 0);
  if (length < 0 || static_cast<std::size_t>(length) > most_name_bytes) return "";
  std::string text(static_cast<std::size_t>(length) + 1, '\0');
  if (get(creation, index, text.data(), text.size()) < 0) return "";
  text.resize(static_cast<std::size_t>(length));
  return text;
}

// The one box that a dataspace selects; false when it is anything else.
bool one_box(hid_t space, Shape& whole, Shape& begin, Shape& extent) {
  std::array<hsize_t, H5S_MAX_RANK> dims{}, most{}, first{}, last{};
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank < 1 || rank > Shape::max_rank ||
      H5Sget_simple_extent_dims(space, dims.data(), most.data()) < 0)
    return false;
  whole = begin = extent = shape_of_rank(rank);
  const H5S_sel_type kind = H5Sget_select_type(space);
  if (kind != H5S_SEL_ALL && kind != H5S_SEL_HYPERSLABS) return false;
  if (H5Sget_select_bounds(space, first.data(), last.data()) < 0) return false;
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (dims[at] > INT64_MAX || last[at] >= dims[at] || first[at] > last[at])
      return false;
    whole[i] = static_cast<std::int64_t>(dims[at]);
    begin[i] = static_cast<std::int64_t>(first[at]);
    extent[i] = static_cast<std::int64_t>(last[at] - first[at] + 1);
  }
  return bytes_of(whole, DType::f64).has_value() &&
         H5Sget_select_npoints(space) == extent.elements();
}

// A dataspace that selects a few boxes which follow each other in the whole.
bool boxes_in_rows(hid_t space, Hdf5File::Piece& piece) {
  constexpr hssize_t most = 8;
  Shape whole;
  one_box(space, whole, piece.begin, piece.extent);  // the bounds of all
  if (whole.rank() < 1 || H5Sget_select_type(space) != H5S_SEL_HYPERSLABS) return false;
  const hssize_t count = H5Sget_select_hyper_nblocks(space);
  if (count < 2 || count > most || !bytes_of(whole, DType::f64)) return false;
  const auto rank = static_cast<std::size_t>(whole.rank());
  std::vector<hsize_t> corners(2 * rank * static_cast<std::size_t>(count));
  if (H5Sget_select_hyper_blocklist(space, 0, static_cast<hsize_t>(count),
                                    corners.data()) < 0)
    return false;
  std::int64_t next = -1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    Shape begin = whole, extent = whole;
    for (std::size_t dim = 0; dim < rank; ++dim) {
      const hsize_t first = corners[2 * rank * i + dim];
      const hsize_t last = corners[2 * rank * i + rank + dim];
      begin[static_cast<int>(dim)] = static_cast<std::int64_t>(first);
      extent[static_cast<int>(dim)] = static_cast<std::int64_t>(last - first + 1);
    }
    const std::int64_t place = place_in_rows(whole, begin, extent);
    if (place < 0 || (i > 0 && place != next)) return false;
    next = place + extent.elements();
    if (i == 0) {
      piece.begin = begin;
      piece.extent = extent;
    } else {
      piece.further_boxes.emplace_back(begin, extent);
    }
  }
  return true;
}

}  // namespace

std::string relative_name(const std::string& name) {
  return name.substr(std::min(name.find_first_not_of('/'), name.size()));
}

Hdf5Id open_dataset(hid_t file, const std::string& path, const std::string& name,
                    std::set<std::string>* checked) {
  const bool check = checked != nullptr && !checked->contains(name);
  if (check) check_links(file, path, name);
  Hdf5Id dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset.valid())
    fail(Status::bad_content, "{}: cannot open the dataset '{}': {}", path, name,
         hdf5_reason());
  if (check) {
    check_storage(file, dataset.get(), path, name);
    checked->insert(name);
  }
  return dataset;
}

std::string why_not_dense(hid_t dataset, DType dtype) {
  const Hdf5Id creation(H5Dget_create_plist(dataset), H5Pclose);
  const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
  if (H5Pget_layout(creation.get()) != H5D_CONTIGUOUS)
    return "its elements do not lie one after the other";
  if (H5Tequal(type.get(), stored_type(dtype).get()) <= 0)
    return format("its elements are not stored as this program stores {}",
                  name_of(dtype));
  return "";
}

bool is_virtual(hid_t dataset) {
  const Hdf5Id creation(H5Dget_create_plist(dataset), H5Pclose);
  return H5Pget_layout(creation.get()) == H5D_VIRTUAL;
}

std::vector<Hdf5File::Piece> mapped_pieces(hid_t dataset, const std::string& path,
                                           const std::string& name) {
  const Hdf5Id creation = creation_of(dataset, path, name);
  std::size_t count = 0;
  H5Pget_virtual_count(creation.get(), &count);
  std::vector<Hdf5File::Piece> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    Hdf5File::Piece piece;
    piece.file = text_of(creation.get(), i, H5Pget_virtual_filename);
    piece.source = text_of(creation.get(), i, H5Pget_virtual_dsetname);
    // HDF5 reads '%' as a pattern of many names.
    const bool plain = is_plain_name(piece.file) && !piece.source.empty() &&
                       (piece.file + piece.source).find('%') == std::string::npos;
    require(plain, Status::bad_content,
            "{}: the virtual dataset '{}' shows '{}' of '{}', but only files of its own "
            "folder are read; make it one dataset, for example with h5repack",
            path, name, piece.source, piece.file);
    const Hdf5Id to(H5Pget_virtual_vspace(creation.get(), i), H5Sclose);
    const Hdf5Id from(H5Pget_virtual_srcspace(creation.get(), i), H5Sclose);
    Shape whole, source, begin;
    const bool boxes = (one_box(to.get(), whole, piece.begin, piece.extent) ||
                        boxes_in_rows(to.get(), piece)) &&
                       (H5Sget_select_type(from.get()) == H5S_SEL_ALL ||
                        one_box(from.get(), source, begin, source));
    require(
        boxes, Status::bad_content,
        "{}: the virtual dataset '{}' is not made of whole datasets, a box each; make "
        "it one dataset, for example with h5repack",
        path, name);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

std::pair<DType, Shape> description(hid_t dataset, const std::string& path,
                                    const std::string& name) {
  const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  auto dtype = dtype_of_hdf5(type.get());
  if (dtype == DType::u8) dtype = named_type(dataset);
  require(dtype.has_value(), Status::bad_content,
          "{}: the dataset '{}' holds elements of a type that this program does not read",
          path, name);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  require(rank >= 0 && rank <= Shape::max_rank, Status::bad_content,
          "{}: the dataset '{}' has {} dims; at most {} are read", path, name, rank,
          Shape::max_rank);
  std::array<hsize_t, Shape::max_rank> extents{};
  H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  Shape shape = shape_of_rank(rank);
  for (int i = 0; i < rank; ++i)
    shape[i] = static_cast<std::int64_t>(extents[static_cast<std::size_t>(i)]);
  require(bytes_of(shape, DType::f64).has_value(), Status::bad_content,
          "{}: the dataset '{}' cannot have the shape {}", path, name, shape);
  return {*dtype, shape};
}

void check_box(const std::string& path, const std::string& name, const Shape& whole,
               const Shape& begin, const Shape& extent) {
  require(is_inside(whole, begin, extent), Status::bad_content,
          "{}: the dataset '{}' of {} has no box of {} at {}", path, name, whole, extent,
          begin);
}

}  // namespace trireme::io
