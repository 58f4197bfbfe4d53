// The best checkpoints: the order of losses, and the file that they are known by.
// SPDX-License-Identifier: Apache-2.0
#include "io/best_checkpoints.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace trireme::io {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<std::int64_t>;

TEST(BestOf, TheLowestFirstAndTheEarlierOfTwo) {
  const ValidationLosses losses{{2, 4.0}, {4, 3.0}, {6, 3.5}, {8, 3.0}, {10, 9.0}};
  EXPECT_EQ(best_of(losses, 1), Steps{4});
  EXPECT_EQ(best_of(losses, 3), (Steps{4, 8, 6}));
  EXPECT_EQ(best_of(losses, 9), (Steps{4, 8, 6, 2, 10}));
  EXPECT_EQ(best_of({}, 2), Steps{});
}

class Best : public testing::Test {
 protected:
  Best() { fs::create_directories(path_); }
  ~Best() override { fs::remove_all(path_); }

  // What a run does as it saves the step.
  Steps save(BestCheckpoints& best, std::int64_t step, std::optional<double> loss) {
    best.set_loss(loss);
    best.read();
    best.write(step);
    standing_.push_back(step);
    return best.among(standing_, standing_);
  }
  std::string file() const { return path_ + "/" + best_file_name; }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file()).rdbuf();
    return all.str();
  }
  std::string link() const {
    std::error_code none;
    return fs::read_symlink(path_ + "/" + best_name, none).string();
  }

  const std::string path_ =
      fs::temp_directory_path().string() + "/best-" + std::to_string(::getpid());
  Steps standing_;
};

TEST_F(Best, AnotherStartKnowsThem) {
  {
    BestCheckpoints best(path_, 2);
    EXPECT_EQ(save(best, 2, 1.0 / 3), Steps{2});
    EXPECT_EQ(save(best, 4, 0.25), (Steps{4, 2}));
  }
  BestCheckpoints again(path_, 2);
  EXPECT_EQ(save(again, 6, 0.3), (Steps{4, 6}));
  EXPECT_EQ(link(), "step-00000004");
  EXPECT_EQ(save(again, 8, 0.2), (Steps{8, 4}));
  EXPECT_EQ(link(), "step-00000008");
  EXPECT_NE(text().find("0.3333333333333333"), std::string::npos) << text();
}

// A file system may fail for a moment: what cannot be read then is not forgotten.
TEST_F(Best, AStepThatCannotBeReadKeepsItsLoss) {
  BestCheckpoints best(path_, 1);
  EXPECT_EQ(save(best, 2, 0.25), Steps{2});
  EXPECT_EQ(save(best, 4, 0.5), Steps{2});
  EXPECT_EQ(best.among({4}, standing_), Steps{4});
  EXPECT_EQ(save(best, 6, 0.75), Steps{2});
  EXPECT_EQ(best.among({4, 6}, {4, 6}), Steps{4}) << "it was removed";
  EXPECT_EQ(best.among(standing_, standing_), Steps{4});
}

// Of steps without a validation, or with a loss that is no number, none is the best.
TEST_F(Best, OnlyWithALoss) {
  BestCheckpoints best(path_, 3);
  EXPECT_EQ(save(best, 1, {}), Steps{});
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_EQ(link(), "");
  EXPECT_EQ(save(best, 2, 5.0), Steps{2});
  EXPECT_EQ(save(best, 3, std::nan("")), Steps{2});
  EXPECT_EQ(save(best, 4, {}), Steps{2});
  EXPECT_EQ(save(best, 2, {}), Steps{}) << "it was written anew";
}

TEST_F(Best, WhatIsGoneIsForgotten) {
  BestCheckpoints best(path_, 2);
  save(best, 2, 1.0);
  save(best, 4, 2.0);
  standing_ = {4};
  EXPECT_EQ(save(best, 6, 3.0), (Steps{4, 6}));
  save(best, 8, 4.0);
  EXPECT_EQ(text().find("\"2\""), std::string::npos) << text();
}

// Whoever cannot tell which are the best removes none.
TEST_F(Best, ABrokenFileKeepsAll) {
  standing_ = {2, 4};
  for (const char* const broken :
       {"", "{", "[]", "{\"validation_losses\": {\"a\": 1}}",
        "{\"validation_losses\": {\"2\": \"1\"}}", "{\"validation_losses\": 3}"}) {
    std::ofstream(file()) << broken;
    BestCheckpoints best(path_, 1);
    EXPECT_EQ(save(best, 6, 1.0), (Steps{2, 4, 6})) << broken;
    EXPECT_EQ(text(), broken);
    EXPECT_EQ(link(), "");
    standing_.pop_back();
    fs::remove(file());
    EXPECT_EQ(save(best, 6, 1.0), Steps{6}) << "it was removed";
    standing_.pop_back();
    fs::remove(path_ + "/" + best_name);
  }
}

TEST_F(Best, OnlyALinkIsReplaced) {
  std::ofstream(path_ + "/" + best_name) << "mine";
  BestCheckpoints best(path_, 1);
  EXPECT_EQ(save(best, 2, 1.0), Steps{2});
  EXPECT_EQ(link(), "");
  EXPECT_EQ(fs::file_size(path_ + "/" + best_name), 4u);
}

}  // namespace
}  // namespace trireme::io
