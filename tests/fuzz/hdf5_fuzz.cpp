// Datasets and attributes of HDF5 files that are sound and not what our layer expects.
// SPDX-License-Identifier: Apache-2.0
//
// An input is not the file's bytes: HDF5's library does not withstand those
// (SECURITY.md). It is a list of choices, from which the library writes a file: types,
// shapes, layouts and attributes of any kind. Then our layer reads it.
#include <hdf5.h>

#include <algorithm>
#include <array>
#include <vector>

#include "fuzz.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_types.hpp"
#include "io/sample_source.hpp"

namespace trireme {
namespace {

using io::Hdf5Id;

constexpr std::array names = {"tokens", "weight", "group/weight"};
constexpr std::array keys = {"element_type", "step", "deck"};
constexpr int most_objects = 4;
constexpr std::int64_t most_read_elements = 4096;

// The input's bytes one by one; zeros after its end.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  unsigned below(unsigned count) { return byte() % count; }
  unsigned byte() { return at_ < size_ ? data_[at_++] : 0u; }
  bool more() const { return at_ < size_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_, at_ = 0;
};

hid_t text_type(std::size_t bytes) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, bytes);
  return type;
}

// A float with fields of any width.
hid_t odd_float(Choices& choices) {
  const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  const unsigned exponent = 1 + choices.below(14);
  H5Tset_fields(type, 15, 15 - exponent, exponent, 0, 15 - exponent);
  H5Tset_precision(type, 16);
  H5Tset_size(type, 2 + choices.below(3));
  H5Tset_ebias(type, choices.below(2) == 0 ? 127 : 15);
  return type;
}

hid_t odd_integer(Choices& choices) {
  const hid_t type = H5Tcopy(choices.below(2) == 0 ? H5T_STD_I8LE : H5T_STD_U8BE);
  H5Tset_size(type, 1 + choices.below(16));
  return type;
}

hid_t compound() {
  const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
  H5Tinsert(type, "a", 0, H5T_STD_I64LE);
  H5Tinsert(type, "b", 8, H5T_IEEE_F64LE);
  return type;
}

hid_t make_type(Choices& choices) {
  const std::array<hsize_t, 1> two = {2};
  switch (choices.below(16)) {
    case 0: return H5Tcopy(H5T_STD_I32LE);
    case 1: return H5Tcopy(H5T_STD_I64BE);
    case 2: return H5Tcopy(H5T_STD_U8LE);
    case 3: return H5Tcopy(H5T_STD_U16LE);
    case 4: return H5Tcopy(H5T_STD_U64LE);
    case 5: return H5Tcopy(H5T_IEEE_F32LE);
    case 6: return H5Tcopy(H5T_IEEE_F64BE);
    case 7: return odd_float(choices);
    case 8: return odd_integer(choices);
    case 9: return text_type(1 + choices.byte());
    case 10: return text_type(H5T_VARIABLE);
    case 11: return compound();
    case 12: return H5Tarray_create2(H5T_STD_I64LE, 1, two.data());
    case 13: return H5Tenum_create(H5T_STD_I32LE);
    case 14: return H5Tcreate(H5T_OPAQUE, 1 + choices.below(9));
    default: return H5Tvlen_create(H5T_STD_I32LE);
  }
}

// Extents of a dataset or an attribute; those of datasets may be huge, for nothing of it
// is stored.
std::vector<hsize_t> make_extents(Choices& choices, bool may_be_huge) {
  std::vector<hsize_t> extents(choices.below(7));
  for (auto& extent : extents) {
    extent = choices.below(6);
    if (may_be_huge && choices.below(8) == 7) extent = hsize_t{1} << choices.below(63);
  }
  return extents;
}

hid_t make_space(const std::vector<hsize_t>& extents, Choices& choices) {
  if (extents.empty()) return H5Screate(choices.below(2) == 0 ? H5S_SCALAR : H5S_NULL);
  return H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr);
}

void make_attribute(hid_t object, Choices& choices) {
  const Hdf5Id type(make_type(choices), H5Tclose);
  const Hdf5Id space(make_space(make_extents(choices, false), choices), H5Sclose);
  const char* const key = keys[choices.below(keys.size())];
  if (H5Aexists(object, key) > 0) return;
  const Hdf5Id attribute(
      H5Acreate2(object, key, type.get(), space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  const hssize_t points = H5Sget_simple_extent_npoints(space.get());
  const bool is_plain =
      H5Tdetect_class(type.get(), H5T_VLEN) <= 0 && H5Tis_variable_str(type.get()) <= 0;
  if (!attribute.valid() || points <= 0 || !is_plain) return;
  std::vector<char> value(static_cast<std::size_t>(points) * H5Tget_size(type.get()));
  for (char& byte : value) byte = static_cast<char>(choices.byte());
  H5Awrite(attribute.get(), type.get(), value.data());
}

// A virtual dataset of this file or another, of its own name at times.
void map_elsewhere(hid_t layout, const std::vector<hsize_t>& extents, Choices& choices) {
  const Hdf5Id space(
      H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
      H5Sclose);
  const char* const file = choices.below(2) == 0 ? "." : "/dev/null";
  H5Pset_virtual(layout, space.get(), file, names[choices.below(names.size())],
                 space.get());
}

// Huge datasets are chunked, so that they take no room.
Hdf5Id make_layout(const std::vector<hsize_t>& extents, Choices& choices) {
  Hdf5Id layout(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  hsize_t points = 1;
  bool huge = false;
  for (const hsize_t extent : extents) {
    huge = huge || extent > 64;
    points *= extent > 64 ? 64 : extent;
  }
  const unsigned kind = choices.below(5);
  if (!extents.empty() && (huge || kind == 1)) {
    std::vector<hsize_t> chunk(extents.size(), 2);
    for (std::size_t i = 0; i < chunk.size(); ++i)
      if (extents[i] < chunk[i]) chunk[i] = 1;
    H5Pset_chunk(layout.get(), static_cast<int>(chunk.size()), chunk.data());
    if (choices.below(2) == 1) H5Pset_shuffle(layout.get());
  } else if (kind == 2) {
    H5Pset_layout(layout.get(), H5D_COMPACT);
  } else if (kind == 3) {
    H5Pset_external(layout.get(), "/etc/passwd", 0, H5F_UNLIMITED);
  } else if (kind == 4 && !extents.empty()) {
    map_elsewhere(layout.get(), extents, choices);
  }
  return layout;
}

void make_dataset(hid_t file, Choices& choices) {
  const char* const name = names[choices.below(names.size())];
  const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links.get(), 1);
  const Hdf5Id type(make_type(choices), H5Tclose);
  const auto extents = make_extents(choices, true);
  const Hdf5Id space(make_space(extents, choices), H5Sclose);
  const Hdf5Id layout = make_layout(extents, choices);
  const Hdf5Id dataset(H5Dcreate2(file, name, type.get(), space.get(), links.get(),
                                  layout.get(), H5P_DEFAULT),
                       H5Dclose);
  if (!dataset.valid()) return;
  for (unsigned left = choices.below(3); left > 0; --left)
    make_attribute(dataset.get(), choices);
}

void make_file(const std::string& path, Choices& choices) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  const Hdf5Id file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                    H5Fclose);
  if (!file.valid()) fuzz::finding("cannot create " + path);
  for (int i = 0; i < most_objects && choices.more(); ++i) {
    switch (choices.below(8)) {
      case 0: make_attribute(file.get(), choices); break;
      case 1:
        if (choices.below(2) == 1)
          H5Lcreate_external("/etc/passwd", "x", file.get(), "outside", H5P_DEFAULT,
                             H5P_DEFAULT);
        H5Lcreate_soft(names[choices.below(names.size())], file.get(), "soft",
                       H5P_DEFAULT, H5P_DEFAULT);
        break;
      default: make_dataset(file.get(), choices);
    }
  }
}

template <class Work>
void attempt(const Work& work) {
  fuzz::unless_refused([&] {
    work();
    return true;
  });
}

void read_dataset(const io::Hdf5File& file, const std::string& name) {
  const auto [dtype, shape] = file.describe(name);
  Shape extent = shape, begin = shape;
  std::int64_t elements = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    begin[i] = 0;
    extent[i] = std::min<std::int64_t>(shape[i], 3);
    elements *= extent[i];
  }
  if (shape.rank() == 0 || elements > most_read_elements) return;
  std::vector<double> memory(static_cast<std::size_t>(elements));
  file.read(name, begin, TensorView(memory.data(), dtype, extent));
}

void read_file(const std::string& path) {
  const io::Hdf5File file(path, io::Hdf5File::Mode::read);
  std::vector<std::string> objects = file.datasets();
  for (const auto& name : objects) attempt([&] { read_dataset(file, name); });
  objects.emplace_back("/");
  objects.emplace_back("absent");
  for (const auto& object : objects) {
    file.has(object);
    for (const char* const key : keys) {
      attempt([&] { file.text_attribute(object, key); });
      attempt([&] { file.integer_attribute(object, key); });
    }
  }
}

void check(const std::uint8_t* data, std::size_t size) {
  static const std::string path = fuzz::folder() + "/file.h5";
  Choices choices(data, size);
  make_file(path, choices);
  attempt([&] { read_file(path); });
  attempt([&] {
    const auto source = io::open_source({io::SourceKind::tokens, {path}, 2, 100, 0});
    std::array<std::int32_t, 3> tokens{};
    source->sample(source->samples() - 1, tokens);
  });
}

}  // namespace
}  // namespace trireme

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  trireme::check(data, size);
  return 0;
}
