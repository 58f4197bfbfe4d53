// Faults at the n-th system call that changes files below a folder.
// SPDX-License-Identifier: Apache-2.0
// Functions of the C library are replaced, for all that is loaded, by ones that count.
#define _GNU_SOURCE
#include "support/io_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char armed_folder[4096];
static enum io_fault armed_fault;
static int armed_at, armed_error;
static _Atomic int calls; /* a second thread may write */
static const char* struck_call = "";
static _Thread_local int is_below; /* whether the call under way is on the folder */

void io_faults_arm(const char* folder, enum io_fault fault, int at, int error) {
  snprintf(armed_folder, sizeof armed_folder, "%s", folder);
  armed_fault = fault;
  armed_at = at;
  armed_error = error;
  calls = 0;
  struck_call = "";
}

int io_faults_disarm(void) {
  armed_folder[0] = '\0';
  return calls;
}

const char* io_faults_struck(void) { return struck_call; }

/* Counts a call on `path`. 1: it must fail, errno is set. */
static int struck(const char* name, const char* path) {
  is_below = 0;
  if (armed_folder[0] == '\0' || path == NULL ||
      strncmp(path, armed_folder, strlen(armed_folder)) != 0)
    return 0;
  is_below = 1;
  if ((armed_fault == io_fault_input) != (strcmp(name, "input") == 0)) return 0;
  if (armed_fault == io_fault_read && strcmp(name, "pread") != 0) return 0;
  const int call = ++calls; /* another thread may count on at once */
  if (armed_fault == io_fault_kill && call == armed_at) kill(getpid(), SIGKILL);
  if (((armed_fault == io_fault_once || armed_fault == io_fault_input) &&
       call == armed_at) ||
      ((armed_fault == io_fault_after || armed_fault == io_fault_read) &&
       call >= armed_at)) {
    if (struck_call[0] == '\0') struck_call = name;
    errno = armed_error;
    return 1;
  }
  return 0;
}

static int struck_descriptor(const char* name, int descriptor) {
  char link[64], path[4096];
  is_below = 0;
  if (armed_folder[0] == '\0') return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return struck(name, path);
}

/* Of a call on a name in an open folder. */
static int struck_beneath(const char* name, int folder, const char* below) {
  char link[64], path[4096];
  if (armed_folder[0] == '\0' || below == NULL) return 0;
  if (below[0] == '/' || folder == AT_FDCWD) return struck(name, below);
  snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  snprintf(path + length, sizeof path - (size_t)length, "/%s", below);
  return struck(name, path);
}

/* What a write takes of `bytes`. */
static size_t taken(size_t bytes) {
  const int cut = armed_folder[0] != '\0' && armed_fault == io_fault_short && is_below &&
                  calls >= armed_at && bytes > 1;
  return cut ? bytes / 2 : bytes;
}

/* Calls that only read are counted too when the fault is an interruption. */
static int interrupts(void) { return armed_folder[0] != '\0' && armed_error == EINTR; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int d, const void* from, size_t bytes) {
  if (struck_descriptor("write", d)) return -1;
  return REAL(write)(d, from, taken(bytes));
}
ssize_t pwrite(int d, const void* from, size_t bytes, off_t at) {
  if (struck_descriptor("pwrite", d)) return -1;
  return REAL(pwrite)(d, from, taken(bytes), at);
}
ssize_t pwrite64(int d, const void* from, size_t bytes, off64_t at) {
  if (struck_descriptor("pwrite64", d)) return -1;
  return REAL(pwrite64)(d, from, taken(bytes), at);
}
ssize_t read(int d, void* to, size_t bytes) {
  if (interrupts() && struck_descriptor("read", d)) return -1;
  return REAL(read)(d, to, bytes);
}
ssize_t pread(int d, void* to, size_t bytes, off_t at) {
  const int counted = interrupts() || armed_fault == io_fault_read;
  if (counted && struck_descriptor("pread", d)) return -1;
  return REAL(pread)(d, to, bytes, at);
}
int close(int d) {
  const int fails = interrupts() && struck_descriptor("close", d);
  const int result = REAL(close)(d);
  if (!fails) return result;
  errno = EINTR; /* as Linux does: the descriptor is free */
  return -1;
}
int ftruncate(int d, off_t length) {
  return struck_descriptor("ftruncate", d) ? -1 : REAL(ftruncate)(d, length);
}
int fsync(int d) { return struck_descriptor("fsync", d) ? -1 : REAL(fsync)(d); }
int rename(const char* from, const char* to) {
  return struck("rename", from) ? -1 : REAL(rename)(from, to);
}
int mkdir(const char* path, mode_t mode) {
  return struck("mkdir", path) ? -1 : REAL(mkdir)(path, mode);
}
int symlink(const char* to, const char* path) {
  return struck("symlink", path) ? -1 : REAL(symlink)(to, path);
}
int unlink(const char* path) { return struck("unlink", path) ? -1 : REAL(unlink)(path); }
int rmdir(const char* path) { return struck("rmdir", path) ? -1 : REAL(rmdir)(path); }
int renameat(int d, const char* from, int e, const char* to) {
  return struck_beneath("renameat", d, from) ? -1 : REAL(renameat)(d, from, e, to);
}
int mkdirat(int d, const char* path, mode_t mode) {
  return struck_beneath("mkdirat", d, path) ? -1 : REAL(mkdirat)(d, path, mode);
}
int symlinkat(const char* to, int d, const char* path) {
  return struck_beneath("symlinkat", d, path) ? -1 : REAL(symlinkat)(to, d, path);
}
int unlinkat(int d, const char* path, int flags) {
  const int fails = /* of the folder that loses a name: a full disk takes none away */
      path[0] == '/' ? struck("unlinkat", path) : struck_descriptor("unlinkat", d);
  return fails ? -1 : REAL(unlinkat)(d, path, flags);
}

/* Opening fails when it would make the file, or interrupt it, or when calls that read are
 * to fail. */
static int opening_struck(const char* name, int folder, const char* path, int flags) {
  if ((flags & O_CREAT) || interrupts()) return struck_beneath(name, folder, path);
  return (flags & (O_WRONLY | O_RDWR | O_DIRECTORY)) == 0 &&
         struck_beneath("input", folder, path);
}

int openat(int d, const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return opening_struck("openat", d, path, flags) ? -1
                                                  : REAL(openat)(d, path, flags, mode);
}
int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return opening_struck("open", AT_FDCWD, path, flags) ? -1
                                                       : REAL(open)(path, flags, mode);
}

#ifdef IO_FAULTS_PRELOAD
/* As a library for LD_PRELOAD, one rank of a program is armed by its environment:
 * IO_FAULTS=FOLDER:KIND:AT:ERROR, IO_FAULTS_RANK; IO_FAULTS_REPORT names a file that gets
 * the number of calls at the end. */
static int is_this_rank(void) {
  const char* wanted = getenv("IO_FAULTS_RANK");
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (rank == NULL) rank = getenv("PMI_RANK");
  return wanted == NULL || (rank != NULL && strcmp(wanted, rank) == 0);
}

__attribute__((constructor)) static void arm_from_environment(void) {
  const char* text = getenv("IO_FAULTS");
  char folder[4096];
  int kind = 0, at = 0, error = 0;
  if (text == NULL || !is_this_rank()) return;
  if (sscanf(text, "%4095[^:]:%d:%d:%d", folder, &kind, &at, &error) == 4)
    io_faults_arm(folder, (enum io_fault)kind, at, error);
}

__attribute__((destructor)) static void report_calls(void) {
  const char* path = getenv("IO_FAULTS_REPORT");
  FILE* file;
  const int count = io_faults_disarm();
  if (path == NULL || count == 0 || (file = fopen(path, "w")) == NULL) return;
  fprintf(file, "%d\n", count);
  fclose(file);
}
#endif
