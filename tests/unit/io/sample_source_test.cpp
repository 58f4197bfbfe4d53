// Sources of samples: file boundaries, changed files, bad content, synthetic statistics.
// SPDX-License-Identifier: Apache-2.0
#include "io/sample_source.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numbers>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "io/hdf5_file.hpp"

namespace trireme::io {
namespace {

namespace fs = std::filesystem;

class SampleSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::temp_directory_path() / format("trireme_source_{}", ::getpid());
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string file(const std::string& name, const std::string& content) const {
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }
  std::string tokens_file(const std::string& name, std::vector<std::int32_t> tokens,
                          const std::string& dataset = "tokens",
                          std::vector<std::int32_t> mask = {}) const {
    Hdf5File h5(path(name), Hdf5File::Mode::create);
    h5.write(dataset, TensorView(tokens.data(), DType::i32, {std::ssize(tokens)}));
    if (!mask.empty())
      h5.write("loss_mask", TensorView(mask.data(), DType::i32, {std::ssize(mask)}));
    h5.close();
    return path(name);
  }

  fs::path directory_;
};

using Tokens = std::vector<std::int32_t>;

SourceConfig config_of(SourceKind kind, std::vector<std::string> paths,
                       std::int64_t sequence, std::int64_t vocabulary = 257) {
  return {.kind = kind,
          .paths = std::move(paths),
          .sequence = sequence,
          .vocabulary = vocabulary,
          .seed = 7};
}

Tokens sample(const SampleSource& source, std::int64_t index, std::int64_t sequence) {
  Tokens tokens(static_cast<std::size_t>(sequence) + 1, -1);
  source.sample(index, tokens);
  return tokens;
}

// Status of the error that f() throws; done if none.
template <class F>
Status status_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.status();
  }
  return Status::done;
}
Status status_of_open(const SourceConfig& config) {
  return status_of([&] { open_source(config); });
}

// All tokens of a source, put together again from its windows.
Tokens reassemble(const SampleSource& source, std::int64_t sequence) {
  Tokens all;
  for (std::int64_t i = 0; i < source.windows(); ++i) {
    const auto window = sample(source, i, sequence);
    if (i == 0) all.push_back(window[0]);
    EXPECT_EQ(window[0], all.back()) << "windows share one token, window " << i;
    all.insert(all.end(), window.begin() + 1, window.end());
  }
  return all;
}

TEST_F(SampleSourceTest, BytesAreFilesEachFollowedByEndOfText) {
  const auto a = file("a.txt", "hello"), b = file("b.txt", std::string("\xff\0z", 3)),
             c = file("c.txt", "!");
  const Tokens expected{'h', 'e', 'l', 'l', 'o', 256, 255, 0, 'z', 256, '!', 256};
  for (const std::int64_t sequence : {1, 2, 3, 4, 5, 7, 10, 11}) {
    const auto source = open_source(config_of(SourceKind::bytes, {a, b, c}, sequence));
    EXPECT_EQ(source->tokens(), 12);
    EXPECT_EQ(source->samples(), 11 / sequence);
    EXPECT_EQ(source->windows(), (11 + sequence - 1) / sequence);
    auto padded = expected;
    while (std::ssize(padded) < source->windows() * sequence + 1) padded.push_back(-100);
    EXPECT_EQ(reassemble(*source, sequence), padded) << "sequence " << sequence;
  }
}

TEST_F(SampleSourceTest, GlobsAreSortedAndManyFilesNeedFewDescriptors) {
  Tokens expected;
  for (int i = 0; i < 300; ++i) {
    const auto digits = std::to_string(1000 + i);
    file("part" + digits, digits);
    for (const char digit : digits) expected.push_back(digit);
    expected.push_back(256);
  }
  const auto source = open_source(config_of(SourceKind::bytes, {path("part*")}, 7));
  const auto all = reassemble(*source, 7);
  EXPECT_EQ(Tokens(all.begin(), all.begin() + 1500), expected);
  const auto open_now = std::distance(fs::directory_iterator("/proc/self/fd"), {});
  EXPECT_LT(open_now, 256);
  EXPECT_NE(source->describe().find("300 files, "), std::string::npos);
}

TEST_F(SampleSourceTest, TokensOfHdf5Files) {
  const auto a = tokens_file("a.h5", {5, 6, 7}), b = tokens_file("b.h5", {8, 0, 9, 1});
  const auto source = open_source(config_of(SourceKind::tokens, {a, b}, 4, 10));
  EXPECT_EQ(source->samples(), 1);
  EXPECT_EQ(source->windows(), 2);
  EXPECT_EQ(sample(*source, 0, 4), (Tokens{5, 6, 7, 8, 0}));
  EXPECT_EQ(sample(*source, 1, 4), (Tokens{0, 9, 1, -100, -100}));
}

TEST_F(SampleSourceTest, MasksSayWhichTokensAreTargets) {
  const auto a = tokens_file("a.h5", {1, 2, 3, 4, 5}, "tokens", {0, 0, 1, 7, 1}),
             b = tokens_file("b.h5", {6, 7, 8});
  const auto source = open_source(config_of(SourceKind::tokens, {a, b}, 3));
  const std::vector<std::uint8_t> first{1, 1, 0, 0}, second{0, 0, 0, 0};
  EXPECT_EQ(source->marks(0).no_target, first);
  EXPECT_EQ(source->marks(1).no_target, second);  // of a file without a mask, too
  EXPECT_TRUE(source->marks(0).starts.empty());
  auto fitted = config_of(SourceKind::tokens, {a}, 7);
  fitted.packing = Packing::best_fit;
  fitted.end_token = 2;
  const auto row = open_source(fitted)->marks(0);
  EXPECT_EQ(row.no_target, (std::vector<std::uint8_t>{0, 0, 0, 1, 1, 0, 0, 0}));
  EXPECT_EQ(row.starts, (std::vector<std::int64_t>{0, 0, 0, 3, 3, 5, 5, 5}));
  EXPECT_TRUE(
      open_source(config_of(SourceKind::tokens, {b}, 2))->marks(0).no_target.empty());
  const auto wrong = tokens_file("wrong.h5", {1, 2, 3}, "tokens", {1, 1});
  EXPECT_EQ(status_of_open(config_of(SourceKind::tokens, {wrong}, 2)),
            Status::bad_content);
}

TEST_F(SampleSourceTest, ChangedFilesAreAnErrorNotASignal) {
  const std::string text(5000, 'x');
  for (const int change : {0, 1, 2}) {
    const auto name = file("changing.txt", text);
    const auto source = open_source(config_of(SourceKind::bytes, {name}, 16));
    sample(*source, 300, 16);
    if (change == 0) fs::resize_file(name, 100);
    if (change == 1) std::ofstream(name, std::ios::app) << "more";
    if (change == 2)
      fs::last_write_time(name, fs::last_write_time(name) + std::chrono::seconds(2));
    EXPECT_EQ(status_of([&] { sample(*source, 300, 16); }), Status::io) << change;
    EXPECT_EQ(status_of([&] { sample(*source, 0, 16); }), Status::io) << change;
  }
  const auto name = tokens_file("changing.h5", Tokens(5000, 3));
  const auto source = open_source(config_of(SourceKind::tokens, {name}, 16));
  sample(*source, 300, 16);
  fs::resize_file(name, 3000);
  EXPECT_EQ(status_of([&] { sample(*source, 300, 16); }), Status::io);
  fs::remove(name);
  EXPECT_EQ(status_of([&] { sample(*source, 300, 16); }), Status::io);
}

TEST_F(SampleSourceTest, BadBytes) {
  const auto good = file("good.txt", "0123456789"), empty = file("empty.txt", "");
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {good}, 10)), Status::done);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {good}, 11)),
            Status::bad_content);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {good}, 4, 256)),
            Status::bad_content);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {good, empty}, 4)),
            Status::bad_content);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {directory_}, 4)),
            Status::bad_content);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {"/dev/zero"}, 4)),
            Status::bad_content);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {}, 4)), Status::missing_input);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {path("no")}, 4)),
            Status::missing_input);
  EXPECT_EQ(status_of_open(config_of(SourceKind::bytes, {path("n*")}, 4)),
            Status::missing_input);
}

TEST_F(SampleSourceTest, BadTokens) {
  const auto open = [&](const std::string& name, std::int64_t vocabulary) {
    return status_of_open(config_of(SourceKind::tokens, {name}, 2, vocabulary));
  };
  const auto good = tokens_file("good.h5", {1, 2, 3, 4, 5});
  EXPECT_EQ(open(good, 6), Status::done);
  EXPECT_EQ(open(good, 5), Status::bad_content);
  EXPECT_EQ(open(tokens_file("minus.h5", {1, -2, 3}), 6), Status::bad_content);
  EXPECT_EQ(open(tokens_file("name.h5", {1, 2, 3}, "token"), 6), Status::bad_content);
  EXPECT_EQ(open(tokens_file("short.h5", {1, 2}), 6), Status::bad_content);
  EXPECT_EQ(open(file("text.h5", "not HDF5 at all"), 6), Status::bad_content);
  EXPECT_EQ(open(path("absent.h5"), 6), Status::missing_input);
  Hdf5File h5(path("real.h5"), Hdf5File::Mode::create);
  std::vector<float> reals{1, 2, 3};
  h5.write("tokens", TensorView(reals.data(), DType::f32, {3}));
  h5.close();
  EXPECT_EQ(open(path("real.h5"), 6), Status::bad_content);
  // Not among the windows that opening looks at.
  Tokens tokens(100, 1);
  tokens[50] = 9;
  const auto source =
      open_source(config_of(SourceKind::tokens, {tokens_file("m.h5", tokens)}, 2, 6));
  EXPECT_EQ(status_of([&] { sample(*source, 25, 2); }), Status::bad_content);
  EXPECT_EQ(status_of([&] { sample(*source, 26, 2); }), Status::done);
}

TEST_F(SampleSourceTest, AnyThreadMayRead) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += static_cast<char>(i * 31 % 251);
  const auto source = open_source(config_of(SourceKind::bytes, {file("t", text)}, 64));
  std::array<Tokens, 4> seen;
  std::vector<std::thread> threads;
  for (auto& tokens : seen)
    threads.emplace_back([&] { tokens = reassemble(*source, 64); });
  for (auto& thread : threads) thread.join();
  for (const auto& tokens : seen) EXPECT_EQ(tokens, seen[0]);
  EXPECT_EQ(seen[0][777], 777 * 31 % 251);
}

TEST(Synthetic, EntropyIsExact) {
  constexpr double ln2 = std::numbers::ln2;
  for (const auto& [vocabulary, entropy] : std::map<std::int64_t, double>{
           {1, 0.0}, {2, ln2}, {3, 1.5 * ln2}, {4, 1.75 * ln2}, {5000, 1.75 * ln2}})
    EXPECT_DOUBLE_EQ(
        synthetic_entropy(config_of(SourceKind::synthetic, {}, 8, vocabulary)), entropy);
}

// Counts of token pairs of many samples: each token has min(V, 4) successors with
// probabilities 1/2, 1/4, 1/8, 1/8, and samples start anywhere.
TEST(Synthetic, HasTheSuccessorsItPromises) {
  const std::map<std::int64_t, std::vector<double>> probabilities{
      {1, {1}},
      {2, {.5, .5}},
      {3, {.5, .25, .25}},
      {4, {.5, .25, .125, .125}},
      {13, {.5, .25, .125, .125}}};
  for (const auto& [vocabulary, expected] : probabilities) {
    const std::int64_t sequence = 100;
    const auto source =
        open_source(config_of(SourceKind::synthetic, {}, sequence, vocabulary));
    std::map<std::int32_t, std::map<std::int32_t, double>> pairs;
    std::map<std::int32_t, double> total, starts;
    for (std::int64_t i = 0; i < 2000; ++i) {
      const auto tokens = sample(*source, i, sequence);
      ++starts[tokens[0]];
      for (std::size_t j = 0; j + 1 < tokens.size(); ++j) {
        ++pairs[tokens[j]][tokens[j + 1]];
        ++total[tokens[j]];
      }
    }
    // 5 standard deviations of a binomial count: one false alarm in 2 million counts.
    const double start = 1.0 / static_cast<double>(vocabulary);
    EXPECT_EQ(std::ssize(starts), vocabulary);
    for (const auto& [token, count] : starts)
      EXPECT_NEAR(count / 2000, start, 5 * std::sqrt(start * (1 - start) / 2000));
    for (const auto& [token, next] : pairs) {
      std::multiset<double, std::greater<>> seen;
      for (const auto& [successor, count] : next) seen.insert(count / total[token]);
      ASSERT_EQ(seen.size(), expected.size())
          << "after " << token << " of " << vocabulary;
      std::size_t k = 0;
      for (const double p : seen) {
        const double q = expected[k++];
        EXPECT_NEAR(p, q, 5 * std::sqrt(q * (1 - q) / total[token]));
      }
    }
  }
}

TEST(Synthetic, IsAFunctionOfSeedAndSample) {
  auto config = config_of(SourceKind::synthetic, {}, 20, 50000);
  const auto source = open_source(config), again = open_source(config);
  const auto far = sample(*source, 123456789, 20), near = sample(*source, 3, 20);
  EXPECT_EQ(sample(*again, 123456789, 20), far);
  EXPECT_NE(far, near);
  config.sequence = 5;
  EXPECT_EQ(sample(*open_source(config), 3, 5), Tokens(near.begin(), near.begin() + 6));
  config.sequence = 20;
  config.seed = 8;
  EXPECT_NE(sample(*open_source(config), 3, 20), near);
}

}  // namespace
}  // namespace trireme::io
