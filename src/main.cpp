// Trireme: the way in and the way out.
// SPDX-License-Identifier: Apache-2.0
#include "app/app.hpp"
#include "base/cpu_place.hpp"
#include "base/output.hpp"
#include "comm/world.hpp"

int main(int argc, char** argv) {
  trireme::output::keep_descriptors();
  trireme::unbind_new_threads();
  if (const auto status = trireme::app::run_without_ranks(argc, argv)) return *status;
  // MPI: first in, last out
  trireme::comm::World world(argc, argv, trireme::app::start_of(argc, argv));
  return trireme::comm::guarded(world,
                                [&] { return trireme::app::run(world, argc, argv); });
}
