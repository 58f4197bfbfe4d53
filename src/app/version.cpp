// `trireme --version`: versions of the program and of its libraries.
// SPDX-License-Identifier: Apache-2.0
#include "base/version.hpp"

#include "app/app.hpp"
#include "base/cuda_devices.hpp"
#include "base/log.hpp"
#include "comm/nccl_version.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/runtime/cuda_version.hpp"
#include "kernels/runtime/runtime.hpp"
#include "text/byte_source.hpp"
#include "text/pattern.hpp"

namespace trireme::app {

int version(comm::World& world, const Arguments& given) {
  Arguments arguments = given;
  world.agree([&] { arguments.parse("trireme --version", {}, 0, 0); });
  if (world.rank() != 0) return 0;
  const kernels::Runtime runtime(0, world.ranks_on_node());
  const BuildInfo& build = build_info();
  log::info("trireme {}", build.version);
  log::info("commit: {}", build.git_commit);
  log::info("compiler: {}, {}, {}", build.compiler, build.target, build.build_type);
  log::info("flags: {}", build.flags);
  log::info("options: {}", build.options);
  log::info("headers: {}", build.libraries);
  log::info("CUDA: {}", cuda_version());
  log::info("cuBLASLt: {}", kernels::cublaslt_version());
  log::info("cuDNN: {}", kernels::cudnn_version());
  log::info("NCCL: {}", comm::nccl_version());
  for (const auto& [name, value] : comm::library_versions())
    log::info("{}: {}", name, value);
  log::info("HDF5: {}", io::hdf5_version());
  log::info("PCRE2: {}", text::pcre2_version());
  for (const auto& [name, value] : text::unpacker_versions())
    log::info("{}: {}", name, value);
  for (const auto& [name, value] : kernels::library_versions())
    log::info("{}: {}", name, value);
  return 0;
}

}  // namespace trireme::app
