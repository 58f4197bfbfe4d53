// peak_memory FILE PROGRAM ARGS...: runs a program, and notes its largest memory.
// SPDX-License-Identifier: Apache-2.0
// Its largest resident size, in KiB, is added to the file as a line, at once: each rank of
// an MPI job has one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: peak_memory FILE PROGRAM ARGS...\n");
    return 2;
  }
  const pid_t child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    _exit(127);
  }
  int status = 0;
  struct rusage use;
  if (child < 0 || wait4(child, &status, 0, &use) != child) {
    perror("peak_memory");
    return 2;
  }
  char line[64];
  const int length = snprintf(line, sizeof line, "%ld\n", use.ru_maxrss);
  const int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0666);
  if (file < 0 || write(file, line, (size_t)length) != length || close(file) != 0) {
    perror(argv[1]);
    return 2;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
