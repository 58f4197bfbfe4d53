// What this build is: version, commit, compiler and options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trireme {

// Fixed when the build was configured. The version of a library comes from the module
// that owns it (library_versions(), hdf5_version(), cuda_version(), ...), which asks the
// library that is loaded.
struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view git_commit;  // 12 digits, or "unknown" outside a git work tree
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view target;      // "Linux x86_64"
  std::string_view build_type;  // "Release"
  std::string_view flags;       // of the compiler
  std::string_view options;     // of the build: "TRIREME_NATIVE=ON ..."
  std::string_view libraries;   // used as headers: "TOML++ 3.3.0, xxHash 0.8.1, ..."
};

const BuildInfo& build_info();

}  // namespace trireme
