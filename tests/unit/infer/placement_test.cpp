// Plans of where weights lie: limits, cuts into stages, and files of device maps.
// SPDX-License-Identifier: Apache-2.0
#include "infer/placement.hpp"

#include <gtest/gtest.h>

#include "infer/device_map.hpp"

namespace trireme {
namespace {

using infer::DeviceMap;
using infer::MapPlace;
using infer::Piece;
using infer::Placement;
using infer::Strategy;
using infer::Tier;
using infer::TierLimits;

// An embedding of 300 bytes, blocks of 100 each, a norm and a head of 300, all multiples
// of nothing: a place has as many bytes as a piece.
std::vector<Piece> some_pieces(std::int64_t layers, bool tied = false) {
  std::vector<Piece> pieces;
  const auto add = [&](const std::string& name, std::int64_t layer, std::int64_t bytes,
                       std::vector<std::string> tensors) {
    pieces.push_back({name, layer, false, std::move(tensors), bytes, bytes});
  };
  add("model.embed_tokens.weight", -1, 300, {"model.embed_tokens.weight"});
  pieces.back().in_head_too = tied;
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i);
    add("block " + std::to_string(i), i, 100,
        {prefix + ".self_attn.q_proj.weight", prefix + ".mlp.up_proj.weight"});
  }
  add("model.norm.weight", layers, 10, {"model.norm.weight"});
  if (!tied) add("lm_head.weight", layers, 300, {"lm_head.weight"});
  return pieces;
}

std::string tiers_of(const Placement& placement, std::size_t stage = 0) {
  std::string text;
  for (std::size_t i = 0; i < placement.pieces.size(); ++i)
    text += infer::has_piece(placement, stage, i)
                ? "dhk"[static_cast<int>(placement.stages[stage].of_pieces[i])]
                : '.';
  return text;
}

std::string cut_of(const std::vector<Range>& cut) {
  std::string text;
  for (const Range& range : cut) text += std::to_string(range.count()) + " ";
  return text;
}

Placement on_cpu(std::int64_t limit, bool tied = false,
                 Strategy strategy = Strategy::balanced) {
  const TierLimits limits[] = {{limit, -1}};
  return infer::place_by_limits(some_pieces(6, tied), {{0, 6}}, limits, false, strategy);
}

TEST(Placement, PiecesStayAsLongAsTheyFit) {
  // All fits to the byte, and nothing is streamed.
  EXPECT_EQ(tiers_of(on_cpu(1210)), "ddddddddd");
  EXPECT_EQ(on_cpu(1210).stages[0].device_buffer_bytes, 0);
  // Three blocks are streamed through two buffers of a block.
  EXPECT_EQ(tiers_of(on_cpu(1209)), "ddddkkkdd");
  EXPECT_EQ(on_cpu(1209).stages[0].device_buffer_bytes, 200);
  EXPECT_EQ(tiers_of(on_cpu(1000)), "ddkkkkkdd");
  // In the order of forward the head is streamed: two buffers of 310 bytes take the rest.
  EXPECT_EQ(tiers_of(on_cpu(1000, false, Strategy::sequential)), "dkkkkkkkk");
  EXPECT_EQ(on_cpu(1000, false, Strategy::sequential).stages[0].device_buffer_bytes, 620);
  EXPECT_EQ(tiers_of(on_cpu(0)), "kkkkkkkkk");
  for (std::int64_t limit = 620; limit < 1300; ++limit) {
    const Placement placement = on_cpu(limit);
    EXPECT_LE(infer::bytes_in(placement, 0, Tier::device) +
                  placement.stages[0].device_buffer_bytes,
              limit);
  }
}

TEST(Placement, HostMemoryComesBeforeTheDisk) {
  // The embedding and the head stay, four blocks are streamed from the host.
  const auto place = [](const TierLimits& limit) {
    const TierLimits limits[] = {limit};
    return infer::place_by_limits(some_pieces(6), {{0, 6}}, limits, true,
                                  Strategy::balanced);
  };
  const Placement on_host = place({1100, 400});
  EXPECT_EQ(tiers_of(on_host), "dddhhhhdd");
  EXPECT_EQ(on_host.stages[0].device_buffer_bytes, 200);
  EXPECT_EQ(on_host.stages[0].host_buffer_bytes, 0);
  EXPECT_EQ(infer::bytes_of_pass(on_host, 0, Tier::host), 400);
  // One block beside the buffers for three from the disk.
  const Placement on_disk = place({1100, 300});
  EXPECT_EQ(tiers_of(on_disk), "dddhkkkdd");
  EXPECT_EQ(on_disk.stages[0].host_buffer_bytes, 200);
  EXPECT_EQ(infer::bytes_of_pass(on_disk, 0, Tier::host), 100);
  EXPECT_EQ(infer::bytes_of_pass(on_disk, 0, Tier::disk), 300);
}

TEST(Placement, TiedWeightsCountOnce) {
  EXPECT_EQ(tiers_of(on_cpu(910, true)), "dddddddd");
  const Placement none = on_cpu(0, true);
  EXPECT_EQ(infer::bytes_in(none, 0, Tier::disk), 910);
  // They are brought for both of their uses.
  EXPECT_EQ(infer::bytes_of_pass(none, 0, Tier::disk), 1210);
  EXPECT_EQ(none.stages[0].device_buffer_bytes, 620);
}

TEST(Placement, ModulesThatKeepTheirBuffersAreReadOnce) {
  const Placement placement =
      DeviceMap(R"({"": "cpu", "model.layers.1": "disk", "lm_head": "disk"})", "map.json")
          .place(some_pieces(6), 1, false, "lm_head");
  EXPECT_EQ(tiers_of(placement), "ddkdddddk");
  EXPECT_EQ(placement.stages[0].device_buffer_bytes, 600);
  EXPECT_EQ(infer::bytes_of_pass(placement, 0, Tier::disk), 0);
}

TEST(Placement, StagesAreCut) {
  const std::vector<Piece> pieces = some_pieces(8);
  const std::vector<TierLimits> limits(3, {600, -1});
  // 300 and 2 blocks, 5 blocks, 1 block and 310: at most 500.
  const auto balanced = infer::cut_stages(pieces, limits, Strategy::balanced);
  EXPECT_EQ(cut_of(balanced), "2 5 1 ");
  EXPECT_EQ(cut_of(infer::cut_stages(pieces, limits, Strategy::sequential)), "3 4 1 ");
  EXPECT_EQ(cut_of(infer::cut_stages(pieces, limits, Strategy::balanced_low_0)),
            "1 5 2 ");
  // Where the others have no room the first takes its share.
  const std::vector<TierLimits> small(3, {100, -1});
  EXPECT_EQ(cut_of(infer::cut_stages(pieces, small, Strategy::balanced_low_0)), "2 5 1 ");
  for (const Strategy strategy :
       {Strategy::balanced, Strategy::sequential, Strategy::balanced_low_0}) {
    const std::vector<TierLimits> none(8, {0, -1});
    EXPECT_EQ(cut_of(infer::cut_stages(pieces, none, strategy)), "1 1 1 1 1 1 1 1 ");
  }
}

TEST(DeviceMap, NamesArePlaces) {
  EXPECT_EQ(infer::place_named("gpu3"), (MapPlace{Tier::device, 3}));
  EXPECT_EQ(infer::place_named("cuda:1"), (MapPlace{Tier::device, 1}));
  EXPECT_EQ(infer::place_named("0"), (MapPlace{Tier::device, 0}));
  EXPECT_EQ(infer::place_named("cpu"), (MapPlace{Tier::host, 0}));
  EXPECT_EQ(infer::place_named("disk"), (MapPlace{Tier::disk, 0}));
  for (const char* wrong : {"", "gpu", "gpu-1", "cuda:", "cpu0", "gpugpu0", "mps", "1.5"})
    EXPECT_FALSE(infer::place_named(wrong)) << wrong;
}

Placement placed(const std::string& map, std::size_t stages, bool gpus,
                 bool tied = false) {
  return DeviceMap(map, "map.json").place(some_pieces(3, tied), stages, gpus, "lm_head");
}

TEST(DeviceMap, TheLongestNameCounts) {
  const Placement placement = placed(
      R"({"": "cpu", "model.layers": "disk", "model.layers.1": "cpu", "lm_head": "disk",
          "model.rotary_emb": "cpu"})",
      1, false);
  EXPECT_EQ(tiers_of(placement), "dkdkdk");
  EXPECT_EQ(placement.stages[0].device_buffer_bytes, 600);
  EXPECT_EQ(tiers_of(placed(R"({"model": 0, "lm_head": "cpu"})", 1, true)), "dddddh");
  EXPECT_EQ(tiers_of(placed(R"({"model": "cpu"})", 1, false, true)), "ddddd");
}

TEST(DeviceMap, GpusAreStages) {
  const Placement placement =
      placed(R"({"model.embed_tokens": 0, "model.layers.0": 0, "model.layers.1": "disk",
                 "model.layers.2": 1, "model.norm": 1, "lm_head": "cpu"})",
             2, true);
  EXPECT_EQ(tiers_of(placement, 0), "ddk...");
  EXPECT_EQ(tiers_of(placement, 1), "...ddh");
}

// What a wrong map is told.
std::string why(const std::string& map, std::size_t stages = 1, bool gpus = false,
                bool tied = false) {
  try {
    static_cast<void>(placed(map, stages, gpus, tied));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::bad_content);
    return error.what();
  }
  return "nothing";
}

TEST(DeviceMap, WrongMapsAreTold) {
  const auto says = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  says(why("{}"), "places nothing");
  says(why("[1]"), "is no JSON object");
  says(why("{\"a\": "), "is no JSON object");
  says(why(R"({"": "cpu", "": "disk"})"), "is no JSON object");
  says(why(R"({"": "ram"})"), "which is no place");
  says(why(R"({"": 1.5})"), "which is no place");
  says(why(R"({"": -1})"), "which is no place");
  says(why(R"({"": {"cpu": 1}})"), "which is no place");
  says(why(R"({"model": "cpu"})"), "no place for 'lm_head.weight'");
  says(why(R"({"": "cpu", "model.layers.1.mlp": "disk"})"), "block 1 lies together");
  says(why(R"({"": "cpu", "model.layers.7": "disk"})"), "no part of the model");
  says(why(R"({"": "cpu", "model.layer": "disk"})"), "no part of the model");
  says(why(R"({"": 0})"), "computes on CPUs");
  says(why(R"({"": 1})", 1, true), "there are 1 stages");
  says(why(R"({"": 0})", 2, true), "ends the model lies on gpu1");
  says(why(R"({"model.embed_tokens": 1, "": "cpu"})", 2, true), "begins the model");
  says(why(R"({"": "cpu", "model.layers.0": 1, "model.layers.1": 0})", 2, true),
       "behind a block on gpu1");
  says(why(R"({"": "cpu"})", 2, true), "has no block");
  says(why(R"({"model": "cpu", "lm_head": "disk"})", 1, false, true), "tied embeddings");
}

}  // namespace
}  // namespace trireme
