// SIGUSR2: a checkpoint is wanted, and the run goes on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trireme::comm {

// True once for all SIGUSR2 that have reached this process since the last call.
bool take_save_request();

}  // namespace trireme::comm
