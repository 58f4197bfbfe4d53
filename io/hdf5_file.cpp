// A thin, checked layer on HDF5's C interface.
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/boxes.hpp"
#include "base/row_windows.hpp"
#include "base/system_reason.hpp"
#include "io/hdf5_dataset.hpp"
#include "io/hdf5_driver.hpp"
#include "io/hdf5_types.hpp"

namespace trireme::io {
namespace {

// Groups are made one by one, for HDF5 would give those it makes itself a time.
void make_groups(hid_t file, const std::string& path, const std::string& name) {
  const Hdf5Id creation(H5Pcreate(H5P_GROUP_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation.get(), false);
  const std::string relative = relative_name(name);
  for (auto at = relative.find('/'); at != std::string::npos;
       at = relative.find('/', at + 1)) {
    const std::string group = relative.substr(0, at);
    if (H5Lexists(file, group.c_str(), H5P_DEFAULT) > 0) continue;
    const Hdf5Id made(
        H5Gcreate2(file, group.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
        H5Gclose);
    if (!made.valid())
      fail(Status::io, "{}: cannot make the group '{}': {}", path, group, hdf5_reason());
  }
}

Hdf5Id make_dataset(hid_t file, const std::string& path, const std::string& name,
                    DType dtype, const Shape& shape, hid_t creation) {
  require(shape.rank() > 0, "{}: the dataset '{}' has no dims", path, name);
  make_groups(file, path, name);
  H5Pset_obj_track_times(creation, false);
  H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  Hdf5Id dataset(H5Dcreate2(file, name.c_str(), stored_type(dtype).get(),
                            dense_space(shape).get(), H5P_DEFAULT, creation, H5P_DEFAULT),
                 H5Dclose);
  if (!dataset.valid())
    fail(Status::io, "{}: cannot create the dataset '{}': {}", path, name, hdf5_reason());
  if (is_fp8(dtype) && !name_type(dataset.get(), dtype))
    fail(Status::io, "{}: cannot name the type of the dataset '{}': {}", path, name,
         hdf5_reason());
  return dataset;
}

// Calls work(begin, rows) for blocks of rows of at most window_bytes, or one row.
// What is converted, or is strided in memory, passes through one.
template <class F>
void for_each_block(const TensorView& view, std::size_t element_bytes, const Shape& begin,
                    const F& work) {
  const std::int64_t rows = view.dim(0);
  if (view.elements() == 0) return;
  const std::int64_t row_bytes =
      view.elements() / rows * static_cast<std::int64_t>(element_bytes);
  for (const auto [row, count] : RowWindows(rows, row_bytes, window_bytes)) {
    Shape at = begin;
    at[0] += row;
    work(at, view.rows(row, count));
  }
}

// By its hard links: what others lead to is not part of the file.
herr_t collect_dataset(hid_t group, const char* name, const H5L_info_t* link,
                       void* names) {
  if (link->type != H5L_TYPE_HARD) return 0;
  const Hdf5Id object(H5Oopen(group, name, H5P_DEFAULT), H5Oclose);
  if (object.valid() && H5Iget_type(object.get()) == H5I_DATASET)
    static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

// A file that somebody named, links included; HDF5 empties it.
Descriptor open_output(const std::string& path) {
  Descriptor file(uninterrupted([&] {
    return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
  }));
  if (!file.is_open()) fail(Status::cannot_create, "{}: {}", path, system_reason(errno));
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  require(known && S_ISREG(status.st_mode), Status::cannot_create, "{}: {}, not a file",
          path, what_is_irregular(status.st_mode));
  return file;
}

}  // namespace

Hdf5File::Hdf5File(const std::string& path, Mode mode)
    : path_(path), own_(mode == Mode::create), output_(std::make_shared<Hdf5Output>()) {
  if (own_) {
    create_in(open_output(path));
    return;
  }
  const Hdf5Lock lock;
  file_ = open_hdf5(path, output_);
  if (file_ < 0) refuse(false);
}

Hdf5File::Hdf5File(const PlainFile& file)
    : path_(file.path()), output_(std::make_shared<Hdf5Output>()) {
  const Hdf5Lock lock;
  file_ = open_hdf5(path_, output_, file.descriptor());
  if (file_ < 0) refuse(false);
}

void Hdf5File::refuse(bool create) const {
  const std::string reason = output_->is_other     ? "is not a regular file"
                             : output_->error != 0 ? system_reason(output_->error)
                                                   : hdf5_reason();
  if (create) fail(Status::cannot_create, "{}: {}", path_, reason);
  const bool content = output_->opened || output_->is_other || output_->error == EISDIR;
  fail(content ? Status::bad_content : Status::missing_input,
       content ? "{}: is not an HDF5 file that can be read: {}" : "{}: {}", path_,
       reason);
}

Hdf5File::Hdf5File(const Directory& folder, const std::string& name, Mode mode)
    : path_(folder.path_of(name)), own_(true), output_(std::make_shared<Hdf5Output>()) {
  if (mode == Mode::append)
    append_to(folder.open_to_write(name));
  else
    create_in(folder.create(name));
}

void Hdf5File::append_to(Descriptor file) {
  const Hdf5Lock lock;
  file_ = append_hdf5(path_, file.get(), output_);
  if (file_ < 0) refuse(true);
}

void Hdf5File::create_in(Descriptor file) {
  const Hdf5Lock lock;
  file_ = create_hdf5(path_, file.get(), output_);
  if (file_ < 0) refuse(true);
}

Hdf5File::~Hdf5File() {
  if (file_ < 0) return;
  const Hdf5Lock lock;
  H5Fclose(file_);
}

// Turns a failure beneath HDF5 into an error.
void Hdf5File::check_output(const std::string& name) const {
  if (output_->error == 0) return;
  fail(Status::io, "{}: {} failed{}: {}", path_, output_->call,
       name.empty() ? "" : " at the dataset '" + name + "'",
       system_reason(output_->error));
}

bool Hdf5File::has(const std::string& name) const {
  const Hdf5Lock lock;
  const std::string relative = relative_name(name);
  if (relative.empty()) return true;
  for (auto at = relative.find('/');; at = relative.find('/', at + 1)) {
    if (H5Lexists(file_, relative.substr(0, at).c_str(), H5P_DEFAULT) <= 0) return false;
    if (at == std::string::npos) return true;
  }
}

std::vector<std::string> Hdf5File::datasets() const {
  const Hdf5Lock lock;
  std::vector<std::string> names;
  if (H5Lvisit(file_, H5_INDEX_NAME, H5_ITER_INC, collect_dataset, &names) < 0)
    fail(Status::bad_content, "{}: cannot list the datasets: {}", path_, hdf5_reason());
  std::sort(names.begin(), names.end());
  return names;
}

std::pair<DType, Shape> Hdf5File::describe(const std::string& name) const {
  const Hdf5Lock lock;
  return description(open_dataset(file_, path_, name, checked()).get(), path_, name);
}

void Hdf5File::write(const std::string& name, const TensorView& data) {
  const Hdf5Lock lock;
  const Hdf5Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const Hdf5Id dataset =
      make_dataset(file_, path_, name, data.dtype(), data.shape(), creation.get());
  write_box(dataset.get(), name, origin_of(data.shape()), data);
}

void Hdf5File::create(const std::string& name, DType dtype, const Shape& shape) {
  const Hdf5Lock lock;
  const Hdf5Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  make_dataset(file_, path_, name, dtype, shape, creation.get());
  check_output(name);
}

void Hdf5File::write_rows(const std::string& name, std::int64_t begin,
                          const TensorView& data) {
  const Hdf5Lock lock;
  const Hdf5Id dataset = open_dataset(file_, path_, name, checked());
  const auto [dtype, shape] = description(dataset.get(), path_, name);
  Shape at = origin_of(data.shape());
  at[0] = begin;
  check_box(path_, name, shape, at, data.shape());
  require(dtype == data.dtype(), "{}: rows of {} for the dataset '{}' of {}", path_,
          name_of(data.dtype()), name, name_of(dtype));
  write_box(dataset.get(), name, at, data);
}

void Hdf5File::write_box(std::int64_t dataset, const std::string& name,
                         const Shape& begin, const TensorView& data) {
  const Hdf5Id type = memory_type(data.dtype());
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  const auto put = [&](const Shape& at, const Shape& extent, const void* from) {
    select_box(space.get(), at, extent);
    const herr_t result = H5Dwrite(dataset, type.get(), dense_space(extent).get(),
                                   space.get(), H5P_DEFAULT, from);
    check_output(name);
    if (result < 0)
      fail(Status::io, "{}: cannot write the dataset '{}': {}", path_, name,
           hdf5_reason());
  };
  if (data.elements() == 0) return;
  if (data.is_dense()) return put(begin, data.shape(), data.raw());
  std::vector<std::byte> staging;
  for_each_block(data, size_of(data.dtype()), begin,
                 [&](const Shape& at, const TensorView& block) {
                   staging.resize(std::max(staging.size(), block.bytes()));
                   copy_out(block, staging.data());
                   put(at, block.shape(), staging.data());
                 });
}

void Hdf5File::read_box(std::int64_t dataset, const std::string& name, const Shape& begin,
                        const TensorView& out) const {
  const auto [dtype, shape] = description(dataset, path_, name);
  check_box(path_, name, shape, begin, out.shape());
  check_types(name, dtype, out.dtype());
  // HDF5 converts integers; floats pass as they are stored and are converted here.
  const DType read_as = is_floating(dtype) ? dtype : out.dtype();
  const Hdf5Id type = memory_type(read_as);
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  const auto get = [&](const Shape& at, const Shape& extent, void* to) {
    select_box(space.get(), at, extent);
    if (H5Dread(dataset, type.get(), dense_space(extent).get(), space.get(), H5P_DEFAULT,
                to) >= 0)
      return;
    check_output(name);
    fail(Status::io, "{}: cannot read the dataset '{}': {}", path_, name, hdf5_reason());
  };
  if (out.elements() == 0) return;
  if (out.is_dense() && read_as == out.dtype()) return get(begin, out.shape(), out.raw());
  std::vector<std::byte> staging;
  for_each_block(
      out, size_of(read_as), begin, [&](const Shape& at, const TensorView& block) {
        const auto bytes = static_cast<std::size_t>(block.elements()) * size_of(read_as);
        staging.resize(std::max(staging.size(), bytes));
        get(at, block.shape(), staging.data());
        copy_in(staging.data(), read_as, block);
      });
}

void Hdf5File::create_virtual(const std::string& name, DType dtype, const Shape& shape,
                              const std::vector<Piece>& pieces) {
  const Hdf5Lock lock;
  const Hdf5Id creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  const Hdf5Id space = dense_space(shape);
  for (const auto& piece : pieces) {
    if (piece.extent.elements() == 0) continue;
    check_box(path_, name, shape, piece.begin, piece.extent);
    select_box(space.get(), piece.begin, piece.extent);
    Shape source = piece.extent;
    if (!piece.further_boxes.empty()) source = {piece.extent.elements()};
    for (const auto& [begin, extent] : piece.further_boxes) {
      check_box(path_, name, shape, begin, extent);
      add_box_to_selection(space.get(), begin, extent);
      source[0] += extent.elements();
    }
    if (H5Pset_virtual(creation.get(), space.get(), piece.file.c_str(),
                       piece.source.c_str(), dense_space(source).get()) < 0)
      fail(Status::io, "{}: cannot map '{}' of '{}' into the dataset '{}': {}", path_,
           piece.source, piece.file, name, hdf5_reason());
  }
  make_dataset(file_, path_, name, dtype, shape, creation.get());
  check_output(name);
}

std::int64_t Hdf5File::offset(const std::string& name) const {
  const Hdf5Lock lock;
  const haddr_t at = H5Dget_offset(open_dataset(file_, path_, name, checked()).get());
  require(at != HADDR_UNDEF, "{}: the dataset '{}' has no place in the file", path_,
          name);
  return static_cast<std::int64_t>(at);
}

void Hdf5File::close(bool sync) {
  if (file_ < 0) return;
  const Hdf5Lock lock;
  output_->sync_at_close = sync;
  const herr_t result = H5Fclose(std::exchange(file_, -1));
  check_output("");
  if (result < 0) fail(Status::io, "{}: cannot be closed: {}", path_, hdf5_reason());
}

std::string hdf5_version() {
  unsigned major = 0, minor = 0, release = 0;
  const Hdf5Lock lock;
  H5get_libversion(&major, &minor, &release);
#ifdef H5_HAVE_PARALLEL
  constexpr auto kind = "parallel";
#else
  constexpr auto kind = "serial";
#endif
  return format("{}.{}.{}, {}", major, minor, release, kind);
}

}  // namespace trireme::io
