// side_by_side(): work that some threads share out among them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace trireme {

// Calls work(0) to work(count - 1), each once, on the calling thread and threads - 1
// more; on fewer where the system has none left. A thread that is free takes the next
// one. Of what is thrown, that of the smallest index is thrown again when all threads
// have ended; a thread whose work threw takes no more, so that later ones may be left
// out.
void side_by_side(std::size_t count, std::size_t threads,
                  const std::function<void(std::size_t)>& work);

}  // namespace trireme
