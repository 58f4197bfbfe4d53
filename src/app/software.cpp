// What this program is made of, a line each.
// SPDX-License-Identifier: Apache-2.0
#include "app/software.hpp"

#include <string_view>

#include "base/cuda_devices.hpp"
#include "base/format.hpp"
#include "base/version.hpp"
#include "comm/nccl_version.hpp"
#include "comm/world.hpp"
#include "io/hdf5_file.hpp"
#include "kernels/runtime/cuda_version.hpp"
#include "kernels/runtime/runtime.hpp"
#include "text/byte_source.hpp"
#include "text/pattern.hpp"

namespace trireme::app {

std::vector<std::string> software_lines() {
  std::vector<std::string> lines;
  const auto add = [&](std::string_view name, const auto& value) {
    lines.push_back(format("{}: {}", name, value));
  };
  const BuildInfo& build = build_info();
  add("commit", build.git_commit);
  add("compiler", format("{}, {}, {}", build.compiler, build.target, build.build_type));
  add("flags", build.flags);
  add("options", build.options);
  add("headers", build.libraries);
  add("CUDA", cuda_version());
  add("cuBLASLt", kernels::cublaslt_version());
  add("cuDNN", kernels::cudnn_version());
  add("NCCL", comm::nccl_version());
  for (const auto& [name, value] : comm::library_versions()) add(name, value);
  add("HDF5", io::hdf5_version());
  add("PCRE2", text::pcre2_version());
  for (const auto& [name, value] : text::unpacker_versions()) add(name, value);
  for (const auto& [name, value] : kernels::library_versions()) add(name, value);
  return lines;
}

}  // namespace trireme::app
