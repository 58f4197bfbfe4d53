// Notes every call that opens a file below a folder, or asks for its attributes.
// SPDX-License-Identifier: Apache-2.0
// Preloaded: TRIREME_CALLS_BELOW is the folder, TRIREME_CALLS_TO the file that gets a line
// a call, with the process's number at its end.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(function) ((__typeof__(&function))dlsym(RTLD_NEXT, #function))

static void note(const char* call, int at, const char* path) {
  const char* below = getenv("TRIREME_CALLS_BELOW");
  const char* to = getenv("TRIREME_CALLS_TO");
  char folder[4096] = "", link[64], whole[8300], name[4200], line[8400];
  if (below == NULL || to == NULL || path == NULL) return;
  if (path[0] != '/') {
    ssize_t length;
    snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
    length = readlink(link, folder, sizeof folder - 2);
    if (length < 0) return;
    folder[length] = '/';
    folder[length + 1] = '\0';
  }
  snprintf(whole, sizeof whole, "%s%s", folder, path);
  if (strncmp(whole, below, strlen(below)) != 0) return;
  snprintf(name, sizeof name, "%s.%d", to, (int)getpid());
  const int length = snprintf(line, sizeof line, "%s %s\n", call, whole + strlen(below));
  const int file = NEXT(open)(name, O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0) return;
  if (write(file, line, (size_t)length) != length) _exit(99);
  close(file);
}

static mode_t mode_of(int flags, va_list list) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(list, mode_t) : 0;
}

#define OPEN(function)                                    \
  int function(const char* path, int flags, ...) {        \
    va_list list;                                         \
    va_start(list, flags);                                \
    const mode_t mode = mode_of(flags, list);             \
    va_end(list);                                         \
    note("open", AT_FDCWD, path);                         \
    return NEXT(function)(path, flags, mode);             \
  }
#define OPENAT(function)                                  \
  int function(int at, const char* path, int flags, ...) { \
    va_list list;                                         \
    va_start(list, flags);                                \
    const mode_t mode = mode_of(flags, list);             \
    va_end(list);                                         \
    note("open", at, path);                               \
    return NEXT(function)(at, path, flags, mode);         \
  }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char* path, int flags) {
  note("open", AT_FDCWD, path);
  return NEXT(open)(path, flags, 0);
}
int __open64_2(const char* path, int flags) { return __open_2(path, flags); }
int __openat_2(int at, const char* path, int flags) {
  note("open", at, path);
  return NEXT(openat)(at, path, flags, 0);
}
int __openat64_2(int at, const char* path, int flags) {
  return __openat_2(at, path, flags);
}

// Libraries open files and ask for attributes without calling the functions above.
DIR* opendir(const char* path) {
  note("open", AT_FDCWD, path);
  note("stat", AT_FDCWD, path);
  return NEXT(opendir)(path);
}
DIR* fdopendir(int file) {
  note("stat", file, ".");
  return NEXT(fdopendir)(file);
}
FILE* fopen(const char* path, const char* mode) {
  note("open", AT_FDCWD, path);
  return NEXT(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  note("open", AT_FDCWD, path);
  return NEXT(fopen64)(path, mode);
}

int stat(const char* path, struct stat* status) {
  note("stat", AT_FDCWD, path);
  return NEXT(stat)(path, status);
}
int lstat(const char* path, struct stat* status) {
  note("stat", AT_FDCWD, path);
  return NEXT(lstat)(path, status);
}
int fstatat(int at, const char* path, struct stat* status, int flags) {
  note("stat", at, path);
  return NEXT(fstatat)(at, path, status, flags);
}
int statx(int at, const char* path, int flags, unsigned mask, struct statx* status) {
  note("stat", at, path);
  return NEXT(statx)(at, path, flags, mask, status);
}
int fstat(int file, struct stat* status) {
  note("stat", file, ".");
  return NEXT(fstat)(file, status);
}
