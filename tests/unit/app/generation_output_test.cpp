// The file of texts of a batch: whole, or not there.
// SPDX-License-Identifier: Apache-2.0
#include "app/generation_output.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/error.hpp"

namespace trireme {
namespace {

namespace fs = std::filesystem;

class Output : public testing::Test {
 protected:
  Output() {
    std::string name = fs::temp_directory_path() / "trireme-output-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    for (std::size_t i = 0; i < 2; ++i) {
      prompts_.wanted.push_back({i, 0, {}, "digest of " + std::to_string(i)});
      prompts_.generations.emplace_back().prompt = {1, 2};
    }
  }
  ~Output() override { fs::remove_all(folder_); }
  std::string path() const { return folder_ + "/texts.jsonl"; }
  std::string folder_;
  app::PromptFile prompts_;
};

// The same run goes on from what there is.
TEST_F(Output, IsNotPutInPlaceWithoutAllTexts) {
  infer::Generated made;
  made.tokens = {3, 4};
  {
    app::GenerationOutput output(path(), prompts_, "key");
    output.add(1, made, {});
    EXPECT_THROW(output.finish(), Error);
    EXPECT_FALSE(output.complete());
  }
  EXPECT_FALSE(fs::exists(path()));
  app::GenerationOutput output(path(), prompts_, "key");
  EXPECT_EQ(output.missing(), std::vector<std::size_t>{0});
  output.add(0, made, {});
  output.finish();
  std::ifstream file(path());
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 2);
  EXPECT_EQ(all.find("\n\n"), std::string::npos);
  EXPECT_FALSE(fs::exists(path() + ".partial"));
  EXPECT_TRUE(app::GenerationOutput(path(), prompts_, "key").complete());
}

}  // namespace
}  // namespace trireme
