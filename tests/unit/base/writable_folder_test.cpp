// Folders in which files can be made, and those that only look so.
// SPDX-License-Identifier: Apache-2.0
#include "base/writable_folder.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace trireme {
namespace {

TEST(WritableFolder, AFolderOfAUserIsWritableAndStaysEmpty) {
  // In memory that may have no blocks, and elsewhere.
  for (const char* const place : {"/dev/shm", "/tmp"}) {
    std::string folder = std::string(place) + "/trireme-XXXXXX";
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    EXPECT_EQ(why_no_files_in(folder), "") << folder;
    EXPECT_TRUE(std::filesystem::is_empty(folder));
    std::filesystem::remove(folder);
  }
}

TEST(WritableFolder, WhatIsNotThereIsNot) {
  EXPECT_NE(why_no_files_in("/nothing/here"), "");
}

// Their permissions allow a superuser all.
TEST(WritableFolder, TheKernelsOwnFoldersAreNot) {
  for (const char* const name : {"/proc", "/proc/self", "/sys"})
    if (std::filesystem::is_directory(name)) {
      EXPECT_NE(why_no_files_in(name), "") << name;
    }
}

}  // namespace
}  // namespace trireme
