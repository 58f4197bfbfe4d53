// `trireme --version`: versions of the program and of its libraries.
// SPDX-License-Identifier: Apache-2.0
#include "base/version.hpp"

#include "app/app.hpp"
#include "app/software.hpp"
#include "base/log.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::app {

int version(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] { arguments.parse("trireme --version", {}, 0, 0); });
  if (world.rank() != 0) return 0;
  const kernels::Runtime runtime(0, world.ranks_on_node());
  log::info("trireme {}", build_info().version);
  for (const std::string& line : software_lines()) log::info("{}", line);
  return 0;
}

}  // namespace trireme::app
