// The list of a step's samples against what the loader reads.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_list.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "base/error.hpp"
#include "train/batch_loader.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

std::int64_t number(const std::string& line, const std::string& key) {
  const std::regex pattern("\"" + key + "\": ?(\\d+)");
  std::smatch found;
  return std::regex_search(line, found, pattern) ? std::stoll(found[1].str()) : -1;
}

// The tokens of a line, read from the files that it names.
std::vector<std::int32_t> tokens_of(const std::string& line) {
  static const std::regex part(
      R"re("file": ?"([^"]*)", ?"begin": ?(\d+), ?"tokens": ?(\d+))re");
  std::vector<std::int32_t> tokens;
  for (std::sregex_iterator i(line.begin(), line.end(), part), end; i != end; ++i) {
    std::ifstream in((*i)[1].str(), std::ios::binary);
    in.seekg(std::stoll((*i)[2].str()));
    for (std::int64_t left = std::stoll((*i)[3].str()); left > 0; --left) {
      const int byte = in.get();
      tokens.push_back(byte < 0 ? io::end_of_text : byte);
    }
  }
  return tokens;
}

TEST(SampleList, IsWhatTheLoaderReads) {
  const fs::path directory =
      fs::temp_directory_path() / format("trireme_samples_{}", ::getpid());
  fs::create_directories(directory);
  std::vector<std::string> paths;
  for (const int bytes : {37, 101, 5}) {
    paths.push_back((directory / format("text {}", bytes)).string());
    std::ofstream out(paths.back());
    for (int i = 0; i < bytes; ++i) out.put(static_cast<char>(32 + (bytes + i) % 90));
  }
  constexpr std::int64_t S = 8, data_ranks = 2, micro = 3, microbatches = 2;
  config::RunConfig config;
  config.run.seed = 5;
  config.batch = {data_ranks * micro * microbatches, micro};
  config.parallel.mesh = {.data = data_ranks};
  config.data = {
      .kind = io::SourceKind::bytes, .paths = paths, .sequence = S, .vocabulary = 257};
  const auto source = io::open_source(config.data);
  SampleOrder order(*source, config.run.seed);
  for (const std::int64_t step : {1, 2, 5}) {
    if (step == 5) config.batch.global -= micro;  // none for the last data rank's second
    std::istringstream lines(list_samples(config, *source, order, step));
    std::vector<std::string> all;
    for (std::string line; std::getline(lines, line);) all.push_back(line);
    ASSERT_EQ(static_cast<std::int64_t>(all.size()), config.batch.global);
    std::size_t compared = 0;
    for (int rank = 0; rank < data_ranks; ++rank) {
      BatchLoader loader(*source, {.seed = config.run.seed,
                                   .global = config.batch.global,
                                   .micro = micro,
                                   .microbatches = microbatches,
                                   .data_rank = rank,
                                   .data_ranks = data_ranks,
                                   .sequence = S,
                                   .positions = {},
                                   .first_step = step});
      const engine::Batch& batch = loader.next();
      for (const auto& line : all) {
        EXPECT_EQ(number(line, "step"), step);
        EXPECT_EQ(number(line, "index"),
                  (step - 1) * config.batch.global + number(line, "sequence"));
        if (number(line, "data_rank") != rank) continue;
        const auto m = static_cast<std::size_t>(number(line, "microbatch"));
        const auto row = number(line, "row");
        const std::vector<std::int32_t> tokens = tokens_of(line);
        ASSERT_EQ(std::ssize(tokens), S + 1);
        for (std::int64_t i = 0; i < S; ++i) {
          EXPECT_EQ(batch.inputs[m].data<std::int32_t>()[row * S + i],
                    tokens[static_cast<std::size_t>(i)]);
          EXPECT_EQ(batch.targets[m].data<std::int32_t>()[row * S + i],
                    tokens[static_cast<std::size_t>(i) + 1]);
        }
        ++compared;
      }
    }
    EXPECT_EQ(compared, all.size());
  }
  fs::remove_all(directory);
}

// A source without files has numbers alone.
TEST(SampleList, Synthetic) {
  config::RunConfig config;
  config.batch = {2, 1};
  config.parallel.mesh = {.data = 1};
  config.data = {
      .kind = io::SourceKind::synthetic, .paths = {}, .sequence = 4, .vocabulary = 9};
  const auto source = io::open_source(config.data);
  SampleOrder order(*source, config.run.seed);
  const std::string text = list_samples(config, *source, order, 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_EQ(text.find("parts"), std::string::npos);
}

}  // namespace
}  // namespace trireme::train
