// What this build is: version, commit, compiler and options.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trireme {

// "0.1.0".
std::string_view version();

// 12 digits of the commit, or "unknown" outside a git work tree.
std::string_view git_commit();

// Name and value of each thing that was fixed when the build was configured: commit,
// compiler, target, type, flags, options, and the libraries that are used as headers;
// then the CUDA runtime. The module that owns a library tells that library's version
// (library_versions(), hdf5_version(), ...), as the loaded library gives it.
std::vector<std::pair<std::string, std::string>> build_information();

}  // namespace trireme
