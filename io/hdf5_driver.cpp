// The file driver under HDF5: open, read, write, truncate, sync, each return checked.
// SPDX-License-Identifier: Apache-2.0
#include "io/hdf5_driver.hpp"

#if __has_include(<H5FDdevelop.h>)
#include <H5FDdevelop.h>
#endif
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "io/files.hpp"

namespace trireme::io {
namespace {

std::mutex hdf5_mutex;

// The one file that HDF5 may open now. HDF5 hands no pointer of ours to the driver's
// open: the lock is held, so one slot does. What HDF5 would open by itself (the target of
// a link, the source of a virtual dataset, whatever its settings lead to) is not
// announced here.
struct Announced {
  std::string path;
  int descriptor = -1;  // of the file, when it is open already; else it is read
  std::shared_ptr<Hdf5Output> output;
};
const Announced* announced = nullptr;

// Since the lock was taken: why the first call failed, and what was not opened.
std::string first_reason, refused_path;

// HDF5 takes its settings from the environment when it is first called. They are gone by
// then, and before any thread runs: no file, driver, plugin or check of this program is
// chosen there. docs/decisions/environment.md lists them.
const bool environment_is_clear = forget_variables({"HDF5_", "H5FD_", "H5_"});

// Alignment of large datasets in the file.
constexpr hsize_t alignment_bytes = 4096;
constexpr hsize_t alignment_threshold_bytes = 65536;

// An open file. HDF5 casts between its base and this, so the base comes first.
struct DriverFile {
  H5FD_t base{};
  int descriptor = -1;
  haddr_t allocated = 0, size = 0;
  dev_t device{};
  ino_t inode{};
  bool written = false;
  std::shared_ptr<Hdf5Output> output;
};

DriverFile& driver_file(H5FD_t* file) { return *reinterpret_cast<DriverFile*>(file); }
const DriverFile& driver_file(const H5FD_t* file) {
  return *reinterpret_cast<const DriverFile*>(file);
}

void note(const std::shared_ptr<Hdf5Output>& output, const char* call, int error) {
  if (output->error != 0) return;
  output->error = error;
  output->call = call;
}

// A copy of the descriptor of the file to create, or the file of that name to read.
int open_descriptor(const char* name, unsigned flags) {
  if (announced->descriptor < 0) return open_to_read(name);
  struct stat status {};
  if ((flags & H5F_ACC_TRUNC) && ::fstat(announced->descriptor, &status) == 0 &&
      status.st_size > 0) {
    const auto empty = [] { return ::ftruncate(announced->descriptor, 0); };
    if (uninterrupted(empty) != 0) return -1;
  }
  return ::fcntl(announced->descriptor, F_DUPFD_CLOEXEC, 0);
}

H5FD_t* driver_open(const char* name, unsigned flags, hid_t, haddr_t) {
  if (announced == nullptr || announced->path != name) {
    refused_path = name;
    return nullptr;
  }
  const std::shared_ptr<Hdf5Output>& output = announced->output;
  const int descriptor = open_descriptor(name, flags);
  if (descriptor < 0) {
    note(output, "open", errno);
    return nullptr;
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) {
    note(output, "fstat", errno);
    ::close(descriptor);
    return nullptr;
  }
  if (!S_ISREG(status.st_mode)) {
    output->is_other = !S_ISDIR(status.st_mode);
    note(output, "open", S_ISDIR(status.st_mode) ? EISDIR : EINVAL);
    ::close(descriptor);
    return nullptr;
  }
  // HDF5 first tries to open a file that it is to create, and that failure is none.
  *output = {.opened = true};
  auto file = std::make_unique<DriverFile>();
  file->descriptor = descriptor;
  file->size = static_cast<haddr_t>(status.st_size);
  file->device = status.st_dev;
  file->inode = status.st_ino;
  file->output = output;
  return &file.release()->base;
}

herr_t driver_close(H5FD_t* base) {
  const std::unique_ptr<DriverFile> file(&driver_file(base));
  const bool sync = file->written && file->output->sync_at_close;
  if (sync && uninterrupted([&] { return ::fsync(file->descriptor); }) != 0)
    note(file->output, "fsync", errno);
  if (!Descriptor(file->descriptor).close() && file->written)
    note(file->output, "close", errno);
  file->output->bytes = static_cast<std::int64_t>(file->size);
  return 0;
}

int driver_compare(const H5FD_t* left, const H5FD_t* right) {
  const DriverFile &a = driver_file(left), &b = driver_file(right);
  if (a.device != b.device) return a.device < b.device ? -1 : 1;
  if (a.inode != b.inode) return a.inode < b.inode ? -1 : 1;
  return 0;
}

herr_t driver_query(const H5FD_t*, unsigned long* flags) {
  // No sieve: what is read of a box are its own bytes, not those between its rows.
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t driver_allocated(const H5FD_t* file, H5FD_mem_t) {
  return driver_file(file).allocated;
}

herr_t driver_allocate(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  driver_file(file).allocated = address;
  return 0;
}

haddr_t driver_size(const H5FD_t* file, H5FD_mem_t) { return driver_file(file).size; }

herr_t driver_read(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t bytes,
                   void* buffer) {
  DriverFile& file = driver_file(base);
  auto* to = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t got = ::pread(file.descriptor, to, bytes, static_cast<off_t>(address));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      note(file.output, "read", errno);
      return -1;
    }
    if (got == 0) {  // beyond the end: allocated, never written
      std::memset(to, 0, bytes);
      return 0;
    }
    count_read(got);
    to += got;
    bytes -= static_cast<size_t>(got);
    address += static_cast<haddr_t>(got);
  }
  return 0;
}

// Lets the disk begin at once, so that it works while the next tensor is fetched and
// digested, and little is left for the sync at the end. Only a hint: errors are the
// sync's to find.
void start_writeback([[maybe_unused]] int descriptor, [[maybe_unused]] haddr_t address,
                     [[maybe_unused]] ssize_t bytes) {
#ifdef __linux__
  constexpr ssize_t worth_it = ssize_t{1} << 20;
  if (bytes >= worth_it)
    ::sync_file_range(descriptor, static_cast<off64_t>(address),
                      static_cast<off64_t>(bytes), SYNC_FILE_RANGE_WRITE);
#endif
}

herr_t driver_write(H5FD_t* base, H5FD_mem_t, hid_t, haddr_t address, size_t bytes,
                    const void* buffer) {
  DriverFile& file = driver_file(base);
  const auto* from = static_cast<const char*>(buffer);
  file.written = true;
  while (bytes > 0 && file.output->error == 0) {
    const ssize_t put =
        ::pwrite(file.descriptor, from, bytes, static_cast<off_t>(address));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      note(file.output, "write", put < 0 ? errno : ENOSPC);
      break;
    }
    start_writeback(file.descriptor, address, put);
    from += put;
    bytes -= static_cast<size_t>(put);
    address += static_cast<haddr_t>(put);
  }
  file.size = std::max(file.size, address + bytes);
  return 0;
}

herr_t driver_truncate(H5FD_t* base, hid_t, hbool_t) {
  DriverFile& file = driver_file(base);
  if (file.size == file.allocated) return 0;
  file.written = true;
  const auto bytes = static_cast<off_t>(file.allocated);
  if (uninterrupted([&] { return ::ftruncate(file.descriptor, bytes); }) != 0)
    note(file.output, "ftruncate", errno);
  file.size = file.allocated;
  return 0;
}

H5FD_class_t driver_class() {
  H5FD_class_t c{};
#ifdef H5FD_CLASS_VERSION  // HDF5 1.13 and later number the structure and the driver
  c.version = H5FD_CLASS_VERSION;
  c.value = static_cast<H5FD_class_value_t>(601);
#endif
  c.name = "trireme";
  c.maxaddr = static_cast<haddr_t>(INT64_MAX);
  c.fc_degree = H5F_CLOSE_WEAK;
  c.open = driver_open;
  c.close = driver_close;
  c.cmp = driver_compare;
  c.query = driver_query;
  c.get_eoa = driver_allocated;
  c.set_eoa = driver_allocate;
  c.get_eof = driver_size;
  c.read = driver_read;
  c.write = driver_write;
  c.truncate = driver_truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), std::begin(c.fl_map));
  return c;
}

hid_t driver() {
  static const H5FD_class_t c = driver_class();
  static const hid_t id = H5FDregister(&c);
  return id;
}

// Of the innermost record of the error stack.
herr_t take_innermost(unsigned depth, const H5E_error2_t* record, void* text) {
  if (depth == 0 && record->desc != nullptr)
    *static_cast<std::string*>(text) = record->desc;
  return 0;
}

hid_t file_access() {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_driver(access, driver(), nullptr);
  H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V110);
  H5Pset_alignment(access, alignment_threshold_bytes, alignment_bytes);
  return access;
}

hid_t open_announced(const std::string& path, const std::shared_ptr<Hdf5Output>& output,
                     int descriptor, unsigned flags) {
  require(environment_is_clear, "HDF5 is used before the program has begun");
  const hid_t access = file_access();
  const Announced now{path, descriptor, output};
  announced = &now;
  const hid_t file = H5Fopen(path.c_str(), flags, access);
  announced = nullptr;
  H5Pclose(access);
  return file;
}

// HDF5 calls this where a call of ours fails, before the next one (which may only close
// something) empties the stack.
herr_t keep_reason(hid_t stack, void*) {
  if (first_reason.empty())
    H5Ewalk2(stack, H5E_WALK_UPWARD, take_innermost, &first_reason);
  return 0;
}

}  // namespace

Hdf5Lock::Hdf5Lock() : lock_(hdf5_mutex) {
  first_reason.clear();
  refused_path.clear();
  H5Eset_auto2(H5E_DEFAULT, keep_reason, nullptr);
  H5PLset_loading_state(0);
}

// As long as there is somebody to tell, HDF5 complains at its own end of what it lost
// track of itself while it refused a damaged file.
Hdf5Lock::~Hdf5Lock() { H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr); }

hid_t open_hdf5(const std::string& path, const std::shared_ptr<Hdf5Output>& output,
                int open_file) {
  return open_announced(path, output, open_file, H5F_ACC_RDONLY);
}

hid_t append_hdf5(const std::string& path, int descriptor,
                  const std::shared_ptr<Hdf5Output>& output) {
  return open_announced(path, output, descriptor, H5F_ACC_RDWR);
}

hid_t create_hdf5(const std::string& path, int descriptor,
                  const std::shared_ptr<Hdf5Output>& output) {
  require(environment_is_clear, "HDF5 is used before the program has begun");
  const hid_t access = file_access();
  const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
  H5Pset_obj_track_times(creation, false);
  const Announced now{path, descriptor, output};
  announced = &now;
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  announced = nullptr;
  H5Pclose(creation);
  H5Pclose(access);
  return file;
}

std::string hdf5_reason() {
  H5Eclear2(H5E_DEFAULT);
  const std::string reason = std::exchange(first_reason, {});
  const std::string refused = std::exchange(refused_path, {});
  if (!refused.empty())
    return format("it leads to another file, '{}', which is not opened", refused);
  return reason.empty() ? "HDF5 does not say why" : reason;
}

}  // namespace trireme::io
