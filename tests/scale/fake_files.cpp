// The system's calls on files, which count what the rank that runs asks for.
// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "scale/fake_state.hpp"

namespace ts = trireme::scale;

namespace {

// What stands behind a function of this file.
template <class Function>
Function* behind(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void add(std::int64_t ts::Counts::*quantity, std::int64_t amount = 1) {
  if (ts::job != nullptr && ts::current >= 0 && amount > 0)
    ts::job->counted->of(ts::current).*quantity += amount;
}

unsigned mode_of(int flags, std::va_list arguments) {
  return (flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0U;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = behind<int(const char*, int, ...)>("open");
  add(&ts::Counts::opens);
  std::va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = mode_of(flags, arguments);
  va_end(arguments);
  return real(path, flags, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  static auto* const real = behind<int(int, const char*, int, ...)>("openat");
  add(&ts::Counts::opens);
  std::va_list arguments;
  va_start(arguments, flags);
  const unsigned mode = mode_of(flags, arguments);
  va_end(arguments);
  return real(folder, path, flags, mode);
}

int stat(const char* path, struct stat* status) noexcept {
  static auto* const real = behind<int(const char*, struct stat*)>("stat");
  add(&ts::Counts::stats);
  return real(path, status);
}

int lstat(const char* path, struct stat* status) noexcept {
  static auto* const real = behind<int(const char*, struct stat*)>("lstat");
  add(&ts::Counts::stats);
  return real(path, status);
}

int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  static auto* const real = behind<int(int, const char*, struct stat*, int)>("fstatat");
  add(&ts::Counts::stats);
  return real(folder, path, status, flags);
}

int fstat(int file, struct stat* status) noexcept {
  static auto* const real = behind<int(int, struct stat*)>("fstat");
  add(&ts::Counts::stats);
  return real(file, status);
}

int statx(int folder, const char* path, int flags, unsigned mask,
          struct statx* status) noexcept {
  static auto* const real =
      behind<int(int, const char*, int, unsigned, struct statx*)>("statx");
  add(&ts::Counts::stats);
  return real(folder, path, flags, mask, status);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  static auto* const real = behind<int(int, const char*, int)>("unlinkat");
  add(&ts::Counts::changes);
  return real(folder, path, flags);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  static auto* const real = behind<int(int, const char*, int, const char*)>("renameat");
  add(&ts::Counts::changes);
  return real(from_folder, from, to_folder, to);
}

int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  static auto* const real = behind<int(int, const char*, mode_t)>("mkdirat");
  add(&ts::Counts::changes);
  return real(folder, path, mode);
}

int symlinkat(const char* target, int folder, const char* path) noexcept {
  static auto* const real = behind<int(const char*, int, const char*)>("symlinkat");
  add(&ts::Counts::changes);
  return real(target, folder, path);
}

int unlink(const char* path) noexcept {
  static auto* const real = behind<int(const char*)>("unlink");
  add(&ts::Counts::changes);
  return real(path);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = behind<int(const char*, const char*)>("rename");
  add(&ts::Counts::changes);
  return real(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = behind<int(const char*, mode_t)>("mkdir");
  add(&ts::Counts::changes);
  return real(path, mode);
}

int rmdir(const char* path) noexcept {
  static auto* const real = behind<int(const char*)>("rmdir");
  add(&ts::Counts::changes);
  return real(path);
}

// The C library opens files and asks for attributes without the functions above.
DIR* opendir(const char* path) {
  static auto* const real = behind<DIR*(const char*)>("opendir");
  add(&ts::Counts::opens);
  add(&ts::Counts::stats);
  return real(path);
}

DIR* fdopendir(int file) {
  static auto* const real = behind<DIR*(int)>("fdopendir");
  add(&ts::Counts::stats);
  return real(file);
}

FILE* fopen(const char* path, const char* mode) {
  static auto* const real = behind<FILE*(const char*, const char*)>("fopen");
  add(&ts::Counts::opens);
  return real(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  static auto* const real = behind<FILE*(const char*, const char*)>("fopen64");
  add(&ts::Counts::opens);
  return real(path, mode);
}

ssize_t read(int file, void* to, std::size_t bytes) {
  static auto* const real = behind<ssize_t(int, void*, std::size_t)>("read");
  const ssize_t done = real(file, to, bytes);
  add(&ts::Counts::read, done);
  return done;
}

ssize_t pread(int file, void* to, std::size_t bytes, off_t at) {
  static auto* const real = behind<ssize_t(int, void*, std::size_t, off_t)>("pread");
  const ssize_t done = real(file, to, bytes, at);
  add(&ts::Counts::read, done);
  return done;
}

ssize_t write(int file, const void* from, std::size_t bytes) {
  static auto* const real = behind<ssize_t(int, const void*, std::size_t)>("write");
  const ssize_t done = real(file, from, bytes);
  add(&ts::Counts::written, done);
  return done;
}

ssize_t pwrite(int file, const void* from, std::size_t bytes, off_t at) {
  static auto* const real =
      behind<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  const ssize_t done = real(file, from, bytes, at);
  add(&ts::Counts::written, done);
  return done;
}

// What the compiler calls in place of these where it knows the size of a buffer.
ssize_t __read_chk(int file, void* to, std::size_t bytes, std::size_t) {
  return read(file, to, bytes);
}
ssize_t __pread_chk(int file, void* to, std::size_t bytes, off_t at, std::size_t) {
  return pread(file, to, bytes, at);
}
int __open_2(const char* path, int flags) { return open(path, flags); }
int __openat_2(int folder, const char* path, int flags) {
  return openat(folder, path, flags);
}

}  // extern "C"
