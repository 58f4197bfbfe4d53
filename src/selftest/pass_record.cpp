// Files of passed self-tests in the user's cache.
// SPDX-License-Identifier: Apache-2.0
#include "selftest/pass_record.hpp"

#include <cctype>
#include <cstdlib>

#include "base/error.hpp"
#include "base/version.hpp"
#include "io/files.hpp"

namespace trireme::selftest {
namespace {

// An absolute path in the environment; others are to be ignored, by the XDG base
// directory specification.
std::string path_in(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value == '/' ? value : "";
}

}  // namespace

std::string record_folder() {
  std::string cache = path_in("XDG_CACHE_HOME");
  if (cache.empty()) {
    const std::string home = path_in("HOME");
    if (home.empty()) return "";
    cache = home + "/.cache";
  }
  return cache + "/trireme/selftest";
}

std::string record_name(const CudaDevice& gpu) {
  const BuildInfo& build = build_info();
  std::string name = format("{}-{}-{}-{}.{}", build.version, build.git_commit, gpu.name,
                            gpu.compute_major, gpu.compute_minor);
  for (char& letter : name) {
    const auto c = static_cast<unsigned char>(letter);
    if (std::isalnum(c) == 0 && letter != '.' && letter != '-') letter = '_';
  }
  return name;
}

bool has_passed(const CudaDevice& gpu) {
  const std::string folder = record_folder();
  if (folder.empty()) return false;
  try {
    return Directory::to_read(folder).is_file(record_name(gpu));
  } catch (const Error&) {
    return false;  // no such folder: nothing has passed yet
  }
}

std::string record_pass(const std::string& name) {
  const std::string folder = record_folder();
  if (folder.empty()) return "neither XDG_CACHE_HOME nor HOME is an absolute path";
  try {
    io::make_directories(folder);
    io::write_text_atomically(Directory(folder), name,
                              "this build has passed its self-test on this device\n");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme::selftest
