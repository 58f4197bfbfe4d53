// A thin, checked layer on HDF5's C interface: the only owner of hdf5.h.
// SPDX-License-Identifier: Apache-2.0
// Every call into HDF5 in this process is made under one lock, for Debian's parallel HDF5
// is not thread-safe and a loader thread reads while the trainer writes.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/directory.hpp"
#include "base/tensor_view.hpp"
#include "io/stored_boxes.hpp"

namespace trireme::io {

struct Hdf5Output;

// A file of this process alone. HDF5 opens no other file for it, whatever links, virtual
// datasets or settings lead there, and reads datasets only that lie in it; a virtual one
// is read from the files of the same folder that it shows. bf16 is stored as an HDF5
// float of 16 bits with bfloat16's fields, fp16 as IEEE half, so that HDF5's own tools
// show the numbers. Names are paths; groups are made as needed. Equal contents give equal
// bytes. Errors name the file and the dataset. A write that fails (a full disk) throws
// Error(io) and leaves HDF5 in order: the file can still be closed or destroyed.
class Hdf5File {
 public:
  enum class Mode { read, create, append };
  // Throws Error(missing_input) / Error(bad_content) on read, Error(cannot_create) on
  // create.
  Hdf5File(const std::string& path, Mode mode);
  // Creates a file in a run's folder; one of that name is replaced, but no link is
  // followed. append: goes on with one that this class has written there. Throws
  // Error(cannot_create).
  Hdf5File(const Directory& folder, const std::string& name, Mode mode = Mode::create);
  // Reads the file that is open there, which must stay open only until this returns.
  // Throws Error(bad_content).
  explicit Hdf5File(const PlainFile& file);
  ~Hdf5File();
  Hdf5File(const Hdf5File&) = delete;
  Hdf5File& operator=(const Hdf5File&) = delete;

  bool has(const std::string& name) const;
  // Names of all datasets below the root, sorted, without a leading slash.
  std::vector<std::string> datasets() const;
  // An integer type that is none of ours is described as the one that holds its values.
  std::pair<DType, Shape> describe(const std::string& name) const;

  void write(const std::string& name, const TensorView& data);
  // Creates an empty dataset that is filled by write_rows.
  void create(const std::string& name, DType dtype, const Shape& shape);
  // Writes data at row `begin` of dim 0.
  void write_rows(const std::string& name, std::int64_t begin, const TensorView& data);
  // Reads the box at `begin` of the shape of `out`, converting to its dtype: floating to
  // floating, rounding to nearest, ties to even; integer to integer, clamping.
  void read(const std::string& name, const Shape& begin, const TensorView& out) const;
  void read_all(const std::string& name, const TensorView& out) const;

  void write_attribute(const std::string& object, const std::string& key,
                       const std::string& value);
  void write_attribute(const std::string& object, const std::string& key,
                       std::int64_t value);
  void write_attribute(const std::string& object, const std::string& key, double value);
  bool has_attribute(const std::string& object, const std::string& key) const;
  std::string text_attribute(const std::string& object, const std::string& key) const;
  std::int64_t integer_attribute(const std::string& object, const std::string& key) const;

  // A part of a virtual dataset: the box at `begin` of the whole is all of dataset
  // `source` in `file`, a path relative to this file's directory. With `further_boxes`
  // the elements of the dataset, in one dim, are those of all these boxes, which follow
  // each other in the whole.
  struct Piece {
    std::string file, source;
    Shape begin, extent;
    std::vector<std::pair<Shape, Shape>> further_boxes{};  // begin and extent
  };
  void create_virtual(const std::string& name, DType dtype, const Shape& shape,
                      const std::vector<Piece>& pieces);
  // Where the elements of a dataset lie: in this file, or, of a virtual dataset, in
  // others of its folder. Throws Error(bad_content) unless they are dense there, of the
  // types that this class writes, and every element of the whole lies in one box.
  std::vector<BoxEntry> boxes(const std::string& name) const;

  // Byte of the file at which the elements of a dataset begin, one after the other.
  // Throws Error(internal) for a dataset that is not stored so, or not yet.
  std::int64_t offset(const std::string& name) const;

  // Flushes, closes and syncs to disk (or leaves the sync to the caller). Throws
  // Error(io). The destructor closes silently.
  void close(bool sync = true);

 private:
  void create_in(Descriptor file);
  void append_to(Descriptor file);
  void write_box(std::int64_t dataset, const std::string& name, const Shape& begin,
                 const TensorView& data);
  void read_box(std::int64_t dataset, const std::string& name, const Shape& begin,
                const TensorView& out) const;
  void check_output(const std::string& name) const;
  void check_types(const std::string& name, DType stored, DType wanted) const;
  BoxEntry own_box(const std::string& name, DType dtype, const Shape& shape) const;
  [[noreturn]] void refuse(bool create) const;
  // Of files from elsewhere; null: this class is writing it.
  std::set<std::string>* checked() const { return own_ ? nullptr : &checked_; }

  std::string path_;
  bool own_ = false;
  mutable std::set<std::string> checked_;  // names of datasets that are what they must be
  std::int64_t file_ = -1;
  std::shared_ptr<Hdf5Output> output_;
};

// "1.10.8, parallel"
std::string hdf5_version();

}  // namespace trireme::io
