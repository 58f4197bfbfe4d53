// The thread that takes signals, from before MPI starts to the end of the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::comm {

// Blocks signals in this thread and all that it will make, and starts the thread that
// takes them. Before the first other thread of the process is made. A SIGHUP
// that the process was started to ignore (nohup) stays ignored; a SIGINT does not, for
// shells make every job in the background of a script ignore it.
void start_taking_signals();

// From here on requests are only noted: the process ends anyhow.
void only_note_signals();

}  // namespace trireme::comm
