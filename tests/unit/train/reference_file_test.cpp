// ReferenceFile: written anew in the run's folder, and never through a link.
// SPDX-License-Identifier: Apache-2.0
#include "train/reference_file.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "io/files.hpp"
#include "support/checkpoint_tensors.hpp"
#include "unit/config/deck_sample.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

TEST(ReferenceFile, NoLinkIsFollowed) {
  const test::SharedFolder folder;
  config::RunConfig config;
  config.run.directory = folder.path();
  const ReferenceFile file(config, test::parse_sample().effective());
  const ReferencePart part{.name = "training", .values = {-1.5, -2.5}, .samples = 1};
  file.write({part});
  EXPECT_TRUE(fs::is_regular_file(folder.path() + "/reference.h5"));
  const std::string other = folder.path() + "/other";
  for (const char* const name : {"reference.h5", "reference.h5.tmp"}) {
    const std::string link = folder.path() + "/" + name;
    std::ofstream(other) << "precious";
    fs::remove(link);
    fs::create_symlink("other", link);
    const auto [text, status] = test::error_of([&] { file.write({part}); });
    EXPECT_EQ(status, Status::cannot_create);
    test::expect_contains(text, link + ": is a symbolic link");
    EXPECT_EQ(io::read_text(other, 100), "precious");
    EXPECT_TRUE(fs::is_symlink(link));
    fs::remove(link);
  }
}

}  // namespace
}  // namespace trireme::train
