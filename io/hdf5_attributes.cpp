// Hdf5File: reading and writing attributes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "io/hdf5_driver.hpp"
#include "io/hdf5_file.hpp"
#include "io/hdf5_types.hpp"

namespace trireme::io {
namespace {

constexpr std::size_t most_text_bytes = std::size_t{1} << 26;

void write_scalar(hid_t file, const std::string& path, const std::string& object,
                  const std::string& key, hid_t type, const void* value) {
  const Hdf5Id target(H5Oopen(file, object.c_str(), H5P_DEFAULT), H5Oclose);
  const Hdf5Id space(H5Screate(H5S_SCALAR), H5Sclose);
  if (target.valid() && H5Aexists(target.get(), key.c_str()) > 0)
    H5Adelete(target.get(), key.c_str());
  const Hdf5Id attribute(target.valid()
                             ? H5Acreate2(target.get(), key.c_str(), type, space.get(),
                                          H5P_DEFAULT, H5P_DEFAULT)
                             : -1,
                         H5Aclose);
  if (!attribute.valid() || H5Awrite(attribute.get(), type, value) < 0)
    fail(Status::io, "{}: cannot write the attribute '{}' of '{}': {}", path, key, object,
         hdf5_reason());
}

Hdf5Id open_attribute(hid_t file, const std::string& path, const std::string& object,
                      const std::string& key) {
  Hdf5Id attribute(
      H5Aopen_by_name(file, object.c_str(), key.c_str(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  if (!attribute.valid())
    fail(Status::bad_content, "{}: '{}' has no attribute '{}': {}", path, object, key,
         hdf5_reason());
  // HDF5 would write as many values to memory as it has.
  const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose);
  require(H5Sget_simple_extent_npoints(space.get()) == 1, Status::bad_content,
          "{}: the attribute '{}' of '{}' must be one value", path, key, object);
  return attribute;
}

// A text of fixed size, its closing zero included, for HDF5 knows no text of size 0.
Hdf5Id text_type(std::size_t characters) {
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, characters + 1);
  H5Tset_strpad(type, H5T_STR_NULLTERM);
  H5Tset_cset(type, H5T_CSET_UTF8);
  return {type, H5Tclose};
}

}  // namespace

void Hdf5File::write_attribute(const std::string& object, const std::string& key,
                               const std::string& value) {
  const Hdf5Lock lock;
  const Hdf5Id type = text_type(value.size());
  write_scalar(file_, path_, object, key, type.get(), value.c_str());
  check_output(object);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& key,
                               std::int64_t value) {
  const Hdf5Lock lock;
  write_scalar(file_, path_, object, key, H5T_NATIVE_INT64, &value);
  check_output(object);
}

void Hdf5File::write_attribute(const std::string& object, const std::string& key,
                               double value) {
  const Hdf5Lock lock;
  write_scalar(file_, path_, object, key, H5T_NATIVE_DOUBLE, &value);
  check_output(object);
}

bool Hdf5File::has_attribute(const std::string& object, const std::string& key) const {
  const Hdf5Lock lock;
  return H5Aexists_by_name(file_, object.c_str(), key.c_str(), H5P_DEFAULT) > 0;
}

std::string Hdf5File::text_attribute(const std::string& object,
                                     const std::string& key) const {
  const Hdf5Lock lock;
  const Hdf5Id attribute = open_attribute(file_, path_, object, key);
  const Hdf5Id stored(H5Aget_type(attribute.get()), H5Tclose);
  require(
      H5Tget_class(stored.get()) == H5T_STRING && H5Tis_variable_str(stored.get()) == 0,
      Status::bad_content, "{}: the attribute '{}' of '{}' is no text of fixed size",
      path_, key, object);
  const std::size_t bytes = H5Tget_size(stored.get());
  require(bytes <= most_text_bytes, Status::bad_content,
          "{}: the attribute '{}' of '{}' is a text of {} bytes; at most {} are read",
          path_, key, object, bytes, most_text_bytes);
  std::string text(bytes, '\0');
  if (H5Aread(attribute.get(), stored.get(), text.data()) < 0)
    fail(Status::bad_content, "{}: cannot read the attribute '{}' of '{}': {}", path_,
         key, object, hdf5_reason());
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

std::int64_t Hdf5File::integer_attribute(const std::string& object,
                                         const std::string& key) const {
  const Hdf5Lock lock;
  const Hdf5Id attribute = open_attribute(file_, path_, object, key);
  const Hdf5Id stored(H5Aget_type(attribute.get()), H5Tclose);
  std::int64_t value = 0;
  if (H5Tget_class(stored.get()) != H5T_INTEGER ||
      H5Aread(attribute.get(), H5T_NATIVE_INT64, &value) < 0)
    fail(Status::bad_content, "{}: the attribute '{}' of '{}' is no integer", path_, key,
         object);
  return value;
}

}  // namespace trireme::io
