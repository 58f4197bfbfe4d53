// What signals ask of this process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

// All threads block these signals, and one thread of its own takes them (sigwait), so
// that no handler ever runs on a stack that computes.

namespace trireme::comm {

// True once SIGTERM, SIGINT, SIGHUP or SIGXCPU has reached this process: it should end in
// order, as soon as what it holds is safe. A second SIGINT ends the whole job at once.
bool stop_requested();
// SIGUSR1 since the last call: the end of the job is near, or somebody wants the run to
// stop. Those that come faster than they are taken count as one.
int take_end_warnings();
// True once for all SIGUSR2 since the last call: a checkpoint is wanted, and the run goes
// on.
bool take_save_request();

// From here on all of these but SIGUSR2 end the program within a second, with status 128
// + the signal's number; so does one that has come before. Files that are not whole are
// removed (base/temporary_files.hpp). For commands that have nothing to save.
void leave_on_stop();
// From here on rank 0 says of SIGINT, also of one that has come before, that the command
// stops and saves. For commands that ask stop_requested().
void save_on_stop();

// From here on SIGINT asks for nothing but an answer of take_interrupts(): how many came
// since the last call. For commands that a person talks to.
void keep_on_interrupt();
int take_interrupts();

}  // namespace trireme::comm
