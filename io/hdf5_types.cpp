// HDF5's types and dataspaces for ours, and copies between element types.
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_types.hpp"

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "io/element_convert.hpp"

namespace trireme::io {
namespace {

// The attribute in which datasets of FP8 codes have their type's name.
constexpr auto type_attribute = "element_type";

// A float of 16 bits: sign, exponent, mantissa from the top bit down. `base` gives the
// byte order.
hid_t half_type(hid_t base, std::size_t exponent_bits, std::size_t bias) {
  const std::size_t mantissa_bits = 15 - exponent_bits;
  const hid_t type = H5Tcopy(base);
  H5Tset_fields(type, 15, mantissa_bits, exponent_bits, 0, mantissa_bits);
  H5Tset_precision(type, 16);
  H5Tset_size(type, 2);
  H5Tset_ebias(type, bias);
  return type;
}

hid_t bfloat16_type(hid_t base) { return half_type(base, 8, 127); }
hid_t float16_type(hid_t base) { return half_type(base, 5, 15); }

std::optional<DType> integer_of(std::size_t bytes, bool is_signed) {
  switch (bytes) {
    case 1: return is_signed ? DType::i32 : DType::u8;
    case 2: return is_signed ? DType::i32 : DType::u16;
    case 4: return is_signed ? DType::i32 : DType::i64;
    case 8: return DType::i64;
    default: return {};
  }
}

std::optional<DType> floating_of(hid_t type) {
  switch (H5Tget_size(type)) {
    case 8: return DType::f64;
    case 4: return DType::f32;
    case 2: break;
    default: return {};
  }
  std::size_t sign = 0, exponent = 0, exponent_bits = 0, mantissa = 0, mantissa_bits = 0;
  H5Tget_fields(type, &sign, &exponent, &exponent_bits, &mantissa, &mantissa_bits);
  if (exponent_bits == 8 && H5Tget_ebias(type) == 127) return DType::bf16;
  if (exponent_bits == 5 && H5Tget_ebias(type) == 15) return DType::f16;
  return {};
}

// Calls run(pointer, elements) for each dense run of the last dim, in row-major order.
template <class F>
void for_each_run(const TensorView& view, std::byte* at, int dim, const F& run) {
  if (dim == view.shape().rank() - 1) {
    run(at, view.dim(dim));
    return;
  }
  const auto step = view.stride(dim) * static_cast<std::int64_t>(size_of(view.dtype()));
  for (std::int64_t i = 0; i < view.dim(dim); ++i)
    for_each_run(view, at + i * step, dim + 1, run);
}

}  // namespace

Hdf5Id stored_type(DType dtype) {
  const auto id = [&] {
    switch (dtype) {
      case DType::f64: return H5Tcopy(H5T_IEEE_F64LE);
      case DType::f32: return H5Tcopy(H5T_IEEE_F32LE);
      case DType::bf16: return bfloat16_type(H5T_IEEE_F32LE);
      case DType::f16: return float16_type(H5T_IEEE_F32LE);
      case DType::i64: return H5Tcopy(H5T_STD_I64LE);
      case DType::i32: return H5Tcopy(H5T_STD_I32LE);
      case DType::u16: return H5Tcopy(H5T_STD_U16LE);
      case DType::e4m3:
      case DType::e5m2:
      case DType::u8: return H5Tcopy(H5T_STD_U8LE);
    }
    return hid_t{-1};
  }();
  return {id, H5Tclose};
}

Hdf5Id memory_type(DType dtype) {
  const auto id = [&] {
    switch (dtype) {
      case DType::f64: return H5Tcopy(H5T_NATIVE_DOUBLE);
      case DType::f32: return H5Tcopy(H5T_NATIVE_FLOAT);
      case DType::bf16: return bfloat16_type(H5T_NATIVE_FLOAT);
      case DType::f16: return float16_type(H5T_NATIVE_FLOAT);
      case DType::i64: return H5Tcopy(H5T_NATIVE_INT64);
      case DType::i32: return H5Tcopy(H5T_NATIVE_INT32);
      case DType::u16: return H5Tcopy(H5T_NATIVE_UINT16);
      case DType::e4m3:
      case DType::e5m2:
      case DType::u8: return H5Tcopy(H5T_NATIVE_UINT8);
    }
    return hid_t{-1};
  }();
  return {id, H5Tclose};
}

std::optional<DType> dtype_of_hdf5(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return integer_of(H5Tget_size(type), H5Tget_sign(type) == H5T_SGN_2);
    case H5T_FLOAT: return floating_of(type);
    default: return {};
  }
}

bool name_type(hid_t dataset, DType dtype) {
  const std::string_view text = name_of(dtype);
  const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), text.size());
  H5Tset_strpad(type.get(), H5T_STR_NULLPAD);
  const Hdf5Id space(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Id attribute(H5Acreate2(dataset, type_attribute, type.get(), space.get(),
                                    H5P_DEFAULT, H5P_DEFAULT),
                         H5Aclose);
  return attribute.valid() && H5Awrite(attribute.get(), type.get(), text.data()) >= 0;
}

std::optional<DType> named_type(hid_t dataset) {
  if (H5Aexists(dataset, type_attribute) <= 0) return DType::u8;
  const Hdf5Id attribute(H5Aopen(dataset, type_attribute, H5P_DEFAULT), H5Aclose);
  const Hdf5Id type(H5Aget_type(attribute.get()), H5Tclose);
  const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose);
  std::string text(4, '\0');
  if (H5Sget_simple_extent_npoints(space.get()) != 1 ||
      H5Tget_class(type.get()) != H5T_STRING || H5Tget_size(type.get()) != text.size() ||
      H5Tis_variable_str(type.get()) > 0 ||
      H5Aread(attribute.get(), type.get(), text.data()) < 0)
    return {};
  for (const DType dtype : {DType::e4m3, DType::e5m2})
    if (name_of(dtype) == text) return dtype;
  return {};
}

Hdf5Id dense_space(const Shape& shape) {
  std::array<hsize_t, Shape::max_rank> extents{};
  for (int i = 0; i < shape.rank(); ++i)
    extents[static_cast<std::size_t>(i)] = static_cast<hsize_t>(shape[i]);
  return {H5Screate_simple(shape.rank(), extents.data(), nullptr), H5Sclose};
}

namespace {

void select(hid_t space, const Shape& begin, const Shape& extent, H5S_seloper_t how) {
  std::array<hsize_t, Shape::max_rank> start{}, count{};
  for (int i = 0; i < extent.rank(); ++i) {
    start[static_cast<std::size_t>(i)] = static_cast<hsize_t>(begin[i]);
    count[static_cast<std::size_t>(i)] = static_cast<hsize_t>(extent[i]);
  }
  require(
      H5Sselect_hyperslab(space, how, start.data(), nullptr, count.data(), nullptr) >= 0,
      "HDF5 cannot select the box of {} at {}", extent, begin);
}

}  // namespace

void select_box(hid_t space, const Shape& begin, const Shape& extent) {
  select(space, begin, extent, H5S_SELECT_SET);
}

void add_box_to_selection(hid_t space, const Shape& begin, const Shape& extent) {
  select(space, begin, extent, H5S_SELECT_OR);
}

void copy_in(const void* from, DType dtype, const TensorView& to) {
  const auto* at = static_cast<const std::byte*>(from);
  for_each_run(to, static_cast<std::byte*>(to.raw()), 0,
               [&](std::byte* run, std::int64_t count) {
                 convert_elements(at, dtype, run, to.dtype(), count);
                 at += static_cast<std::size_t>(count) * size_of(dtype);
               });
}

void copy_out(const TensorView& from, void* to) {
  auto* at = static_cast<std::byte*>(to);
  for_each_run(from, static_cast<std::byte*>(from.raw()), 0,
               [&](std::byte* run, std::int64_t count) {
                 const auto bytes =
                     static_cast<std::size_t>(count) * size_of(from.dtype());
                 std::memcpy(at, run, bytes);
                 at += bytes;
               });
}

}  // namespace trireme::io
