// `trireme inspect CHECKPOINT`.
// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "app/app.hpp"
#include "base/log.hpp"
#include "io/checkpoint.hpp"

namespace trireme::app {

int inspect(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] {
    arguments.parse("trireme inspect CHECKPOINT", {}, 1, 1);
    const io::CheckpointReader reader(arguments.words().front(), world.rank(),
                                      world.size());
    if (world.rank() != 0) return;
    const io::CheckpointInfo& info = reader.info();
    log::info("checkpoint {}", reader.directory());
    log::info("format {}, written by trireme {}, step {}, {} tokens", info.format_version,
              info.program_version, info.step, info.tokens);
    log::info("mesh pipeline {} data {} context {} tensor {}", info.mesh.pipeline,
              info.mesh.data, info.mesh.context, info.mesh.tensor);
    std::int64_t elements = 0;
    for (const auto& tensor : reader.tensors()) {
      log::info("{}  {} {}  {}", reader.digest(tensor.path), name_of(tensor.dtype),
                tensor.shape, tensor.path);
      elements += tensor.shape.elements();
    }
    log::info("{} tensors, {} elements; the digests of all files are right",
              reader.tensors().size(), elements);
  });
  return 0;
}

}  // namespace trireme::app
