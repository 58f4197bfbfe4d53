// Turns of blends against Megatron-LM's, and their order on any mesh and after a resume.
// SPDX-License-Identifier: Apache-2.0
#include "train/sample_turns.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "io/digest.hpp"
#include "io/token_writer.hpp"
#include "train/batch_loader.hpp"
#include "train/sample_order.hpp"

namespace trireme::train {
namespace {

namespace fs = std::filesystem;

// Files of one token for each kind and place, so that a sample shows where it is from.
class Blends : public testing::Test {
 protected:
  static constexpr std::int64_t S = 4;

  void SetUp() override {
    directory_ = fs::temp_directory_path() / format("trireme_blend_{}", ::getpid());
    fs::create_directories(directory_);
    write(io::TokenFormat::hdf5, "a.h5", 61, 0);
    write(io::TokenFormat::megatron, "b", 29, 1000);
    write(io::TokenFormat::llmc, "c.bin", 21, 2000);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  void write(io::TokenFormat format, const std::string& name, std::int64_t tokens,
             int first) const {
    const auto writer = io::make_token_writer(format, path(name), {"", 4000, 0}, tokens);
    std::vector<std::uint16_t> ids;
    for (std::int64_t i = 0; i < tokens; ++i)
      ids.push_back(static_cast<std::uint16_t>(first + i));
    writer->add(TensorView(ids.data(), DType::u16, {tokens}));
    writer->close({0, tokens});
  }
  std::unique_ptr<io::SampleSource> open(const std::vector<std::string>& parts) const {
    io::SourceConfig config{
        .kind = io::SourceKind::blend, .paths = {}, .sequence = S, .vocabulary = 4000};
    for (const std::string& part : parts)
      config.blend.push_back(io::parse_blend_part(part));
    return io::open_source(config);
  }
  std::vector<std::string> parts() const {
    return {"5 tokens " + path("a.h5"), "3 megatron " + path("b.bin"),
            "2 llmc " + path("c.bin")};
  }

  fs::path directory_;
};

// Megatron-LM's own helper made the digests (tests/reference/make_blends.py). The weights
// go through a source, which normalises them.
TEST_F(Blends, TurnsAreThoseOfMegatron) {
  const char* root = std::getenv("TRIREME_SOURCE");
  std::ifstream in(std::string(root != nullptr ? root : ".") +
                   "/tests/reference/blends.txt");
  int cases = 0;
  for (std::string line; std::getline(in, line); ++cases) {
    std::istringstream words(line);
    std::int64_t places = 0;
    std::size_t count = 0;
    std::string digest, weight;
    words >> places >> digest >> count;
    std::vector<std::string> parts;
    while (words >> weight) parts.push_back(weight + " tokens " + path("a.h5"));
    ASSERT_EQ(parts.size(), count);
    const auto source = open(parts);
    SourceInterleave turns(source->blend()->weights);
    std::vector<std::int64_t> pairs;
    for (std::int64_t i = 0; i < places; ++i) {
      const auto [from, number] = turns.at(i);
      pairs.push_back(static_cast<std::int64_t>(from));
      pairs.push_back(number);
    }
    EXPECT_EQ(
        io::digest_of({reinterpret_cast<const char*>(pairs.data()), pairs.size() * 8}),
        digest)
        << line;
  }
  EXPECT_EQ(cases, 20);
}

TEST_F(Blends, SharesAreTheWeightsToATenthOfAPercent) {
  constexpr std::int64_t places = 1'000'000;
  const std::vector<double> weights = {0.61, 0.3, 0.07, 0.02};
  SourceInterleave turns(weights);
  std::vector<double> counts(weights.size());
  for (std::int64_t i = 0; i < places; ++i) ++counts[turns.at(i).source];
  for (std::size_t s = 0; s < weights.size(); ++s)
    EXPECT_NEAR(counts[s] / places, weights[s], 0.001 * weights[s]) << s;
}

// A place depends on nothing that was asked before.
TEST_F(Blends, PlacesAreAFunctionOfTheIndex) {
  const auto source = open(parts());
  SampleOrder ascending(*source, 3), jumping(*source, 3), other(*source, 4);
  std::vector<SamplePlace> places;
  int differ = 0;
  for (std::int64_t i = 0; i < 300; ++i) {
    places.push_back(ascending.at(i));
    differ += other.at(i).sample != places.back().sample;
  }
  EXPECT_GT(differ, 100);
  for (const std::int64_t i : {299, 4, 4, 5, 0, 150, 149, 299}) {
    EXPECT_EQ(jumping.at(i).sample, places[static_cast<std::size_t>(i)].sample) << i;
    EXPECT_EQ(jumping.at(i).epoch, places[static_cast<std::size_t>(i)].epoch) << i;
  }
}

// Each source has epochs of its own: all its samples once, in an order that changes.
TEST_F(Blends, EachSourceHasItsOwnEpochs) {
  const auto source = open(parts());
  const io::Blend& blend = *source->blend();
  ASSERT_EQ(blend.samples, (std::vector<std::int64_t>{15, 7, 5}));
  SampleOrder order(*source, 3);
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::int64_t>> epochs;
  for (std::int64_t i = 0; i < 600; ++i) {
    const SamplePlace place = order.at(i);
    ASSERT_GE(place.sample, blend.begins[place.source]);
    ASSERT_LT(place.sample, blend.begins[place.source] + blend.samples[place.source]);
    epochs[{place.source, place.epoch}].push_back(place.sample);
  }
  for (std::size_t s = 0; s < 3; ++s) {
    std::set<std::vector<std::int64_t>> orders;
    for (std::int64_t epoch = 0; epoch < 10; ++epoch) {
      const auto& samples = epochs[{s, epoch}];
      const std::set<std::int64_t> once(samples.begin(), samples.end());
      EXPECT_EQ(samples.size(), static_cast<std::size_t>(blend.samples[s]));
      EXPECT_EQ(once.size(), samples.size());
      orders.insert(samples);
    }
    EXPECT_GT(orders.size(), 8u) << s;
  }
}

// The first tokens of the sequences of steps [first, last], on some data ranks.
std::vector<std::multiset<std::int32_t>> steps_of(const io::SampleSource& source,
                                                  std::int64_t S, std::int64_t ranks,
                                                  std::int64_t first, std::int64_t last) {
  std::vector<std::multiset<std::int32_t>> steps(
      static_cast<std::size_t>(last - first + 1));
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    BatchLoader loader(source, {.seed = 9,
                                .global = 16,
                                .micro = 2,
                                .microbatches = 8 / ranks,
                                .data_rank = rank,
                                .data_ranks = ranks,
                                .sequence = S,
                                .positions = {},
                                .first_step = first});
    for (auto& step : steps)
      for (const auto& inputs : loader.next().inputs)
        for (std::int64_t row = 0; row < 2; ++row)
          step.insert(inputs.data<std::int32_t>()[row * S]);
  }
  return steps;
}

TEST_F(Blends, AreTheSameOnAnyDataRanksAndAfterAResume) {
  const auto source = open(parts());
  const auto alone = steps_of(*source, S, 1, 1, 8);
  for (const std::int64_t ranks : {2, 4, 8})
    EXPECT_EQ(steps_of(*source, S, ranks, 1, 8), alone) << ranks;
  for (const std::int64_t ranks : {1, 2, 8})
    EXPECT_EQ(steps_of(*source, S, ranks, 5, 8),
              std::vector(alone.begin() + 4, alone.end()))
        << ranks;
}

TEST_F(Blends, OfFittedDocumentsAreTheSameOnAnyDataRanksAndAfterAResume) {
  io::SourceConfig config{.kind = io::SourceKind::blend,
                          .paths = {},
                          .sequence = S,
                          .vocabulary = 4000,
                          .packing = io::Packing::best_fit};
  for (const auto& [name, weight, first] :
       {std::tuple("d.h5", 2, 0), std::tuple("e.h5", 1, 2000)}) {
    const auto writer =
        io::make_token_writer(io::TokenFormat::hdf5, path(name), {"", 4000, 0}, 600);
    std::vector<std::uint16_t> ids;
    std::vector<std::int64_t> documents{0};
    for (int i = 0; i < 600; ++i) ids.push_back(static_cast<std::uint16_t>(first + i));
    for (int i = 0; documents.back() < 600; ++i)
      documents.push_back(std::min<std::int64_t>(documents.back() + 2 + i % S, 600));
    writer->add(TensorView(ids.data(), DType::u16, {600}));
    writer->close(documents);
    config.blend.push_back(
        {static_cast<double>(weight), io::SourceKind::tokens, path(name)});
  }
  const auto source = io::open_source(config);
  const auto again = io::open_source(config);
  const auto alone = steps_of(*source, S, 1, 1, 24);
  for (const std::int64_t ranks : {2, 4, 8}) {
    EXPECT_EQ(steps_of(*again, S, ranks, 1, 24), alone) << ranks;
    EXPECT_EQ(steps_of(*again, S, ranks, 9, 24),
              std::vector(alone.begin() + 8, alone.end()))
        << ranks;
  }
}

}  // namespace
}  // namespace trireme::train
