// HDF5's types and dataspaces for ours, and copies between element types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <optional>
#include <utility>

#include "base/tensor_view.hpp"

namespace trireme::io {

// An HDF5 identifier that is closed at the end of its scope.
class Hdf5Id {
 public:
  using Close = herr_t (*)(hid_t);
  Hdf5Id(hid_t id, Close close) : id_(id), close_(close) {}
  Hdf5Id(Hdf5Id&& other) noexcept
      : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Hdf5Id& operator=(Hdf5Id&&) = delete;
  ~Hdf5Id() {
    if (id_ >= 0) close_(id_);
  }
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  hid_t id_;
  Close close_;
};

// As stored: little-endian; bf16 and fp16 are floats of 16 bits that HDF5's tools print.
Hdf5Id stored_type(DType dtype);
// The type of elements as they lie in memory.
Hdf5Id memory_type(DType dtype);
// The type of ours that holds every value of `type`; none when there is no such type.
std::optional<DType> dtype_of_hdf5(hid_t type);

// Codes of FP8 numbers are stored as bytes; an attribute of the dataset says what they
// are. name_type() writes it (false: it could not); named_type() gives the type of a
// dataset of bytes, none when the attribute names an unknown one.
bool name_type(hid_t dataset, DType dtype);
std::optional<DType> named_type(hid_t dataset);

Hdf5Id dense_space(const Shape& shape);
// Selects the box of `space` at `begin`.
void select_box(hid_t space, const Shape& begin, const Shape& extent);
// Adds the box to what is selected.
void add_box_to_selection(hid_t space, const Shape& begin, const Shape& extent);

// to = the dense elements at `from`, converted (round to nearest, ties to even; fp64 goes
// to 16 bits by way of fp32). Both types are floating, both integers, or the same.
void copy_in(const void* from, DType dtype, const TensorView& to);
// The dense elements at `to` = a view that may be strided, of the same type.
void copy_out(const TensorView& from, void* to);

}  // namespace trireme::io
