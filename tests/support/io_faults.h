// Faults at the n-th system call that changes files below a folder.
// SPDX-License-Identifier: Apache-2.0
#ifndef TRIREME_TESTS_IO_FAULTS_H
#define TRIREME_TESTS_IO_FAULTS_H

#ifdef __cplusplus
extern "C" {
#endif

enum io_fault {
  io_fault_none,  /* count only */
  io_fault_once,  /* call `at` fails with `error` */
  io_fault_after, /* call `at` and all later ones fail with `error` */
  io_fault_short, /* writes from call `at` on take half of what they are given */
  io_fault_kill,  /* SIGKILL in place of call `at` */
  io_fault_input, /* of calls that open files for reading, the only ones counted, call
                     `at` fails with `error` */
  io_fault_read /* of calls of pread, the only ones counted, call `at` and all later ones
                   fail with `error` */
};

/* Counts calls below `folder` from 1; those that only read when `error` is EINTR. One
 * fault at a time; not for several threads. */
void io_faults_arm(const char* folder, enum io_fault fault, int at, int error);
/* Number of calls since io_faults_arm; no more faults. */
int io_faults_disarm(void);
/* Name of the first call that was made to fail since io_faults_arm, or "". */
const char* io_faults_struck(void);

#ifdef __cplusplus
}
#endif
#endif
