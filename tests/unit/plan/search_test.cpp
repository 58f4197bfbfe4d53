// The search for a deck: against planning every deck of a small space.
// SPDX-License-Identifier: Apache-2.0
#include "plan/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/format.hpp"
#include "support/device.hpp"

namespace trireme::plan {
namespace {

// A machine on which nothing is free, so that every key matters.
Machine small_machine() {
  Machine machine;
  machine.name = "small";
  machine.source = "measured";
  machine.ranks_per_node = 4;
  machine.memory_bytes = 1e12;
  machine.products = {.fp32 = 1e10, .bf16 = 2e10, .half_inner = 16, .half_side = 16};
  machine.attention_forward = 0.5;
  machine.attention_backward = 0.4;
  machine.sweep_rate = 4e9;
  machine.kernel_seconds = 1e-6;
  machine.links = {2e9, 5e-6, 5e8, 2e-5, 0.8};
  machine.write_rate = machine.read_rate = 1e9;
  machine.failure_hours = 50000;
  machine.restart_seconds = 300;
  return machine;
}

SearchDeck small_deck(int ranks, const std::string& more) {
  SearchDeck deck;
  deck.name = "deck";
  deck.text = R"(
[run]
steps = 100
device = "cpu"
[model]
layers = 4
hidden = 64
heads = 4
feed_forward = 128
vocabulary = 256
sequence = 64
[data]
source = "synthetic"
[batch]
global = 8
)" + more;
  deck.ranks = ranks;
  deck.ranks_on_node = 4;
  deck.offloads = false;
  return deck;
}

PlannedDevice on_host(const Machine& machine) {
  return {Device::host(), comm::Transport::mpi, &machine};
}

// Every deck of the space, planned.
std::vector<PlannedCandidate> plan_all(const SearchSpace& space,
                                       const PlannedDevice& on) {
  std::vector<PlannedCandidate> all;
  for (const Candidate& candidate : space.candidates()) {
    const auto config = space.deck().make(space.overrides(candidate));
    if (!config) continue;
    const std::vector<Plan> plans = plan_stages(*config, on);
    PlannedCandidate& one = all.emplace_back();
    one.candidate = candidate;
    one.prediction = predict(*config, plans, *on.machine);
    for (const Plan& plan : plans)
      one.bytes = std::max(one.bytes, device_bytes(plan, on));
  }
  return all;
}

// Room between the least and the most that any deck needs.
MemoryRoom middle_room(const std::vector<PlannedCandidate>& all, double share) {
  const auto [least, most] =
      std::minmax_element(all.begin(), all.end(),
                          [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return {least->bytes + share * (most->bytes - least->bytes), "a test"};
}

void expect_the_best(const SearchDeck& deck, const Machine& machine) {
  const SearchSpace space(deck);
  const PlannedDevice on =
      machine.gpus ? PlannedDevice{Device::cuda(0), comm::Transport::mpi, &machine}
                   : on_host(machine);
  const std::vector<PlannedCandidate> all = plan_all(space, on);
  ASSERT_GT(all.size(), 50u);
  QuickEstimate quick(space, on);
  for (const PlannedCandidate& one : all) {
    const std::optional<Estimate> estimate = quick.estimate(one.candidate);
    ASSERT_TRUE(estimate);
    // What the search relies on.
    EXPECT_LT((1 - estimate_margin) * estimate->seconds, one.seconds())
        << testing::PrintToString(space.words(one.candidate));
    EXPECT_LT((1 - estimate_margin) * estimate->bytes, one.bytes)
        << testing::PrintToString(space.words(one.candidate));
  }
  std::vector<double> shares = {0.1, 0.4, 1.0};
  if (test::is_watched()) shares = {0.4};
  for (const double share : shares) {
    const MemoryRoom room = middle_room(all, share);
    double best = 0;
    for (const PlannedCandidate& one : all)
      if (one.bytes <= room.bytes && (best == 0 || one.seconds() < best))
        best = one.seconds();
    const SearchResult found = search(space, on, room, {.top = 3, .most_plans = 100000});
    ASSERT_GE(found.ranked.size(), 3u);
    EXPECT_EQ(found.proven, 3u);
    EXPECT_DOUBLE_EQ(found.ranked.front().seconds(), best) << share;
    for (std::size_t i = 1; i < found.ranked.size(); ++i)
      EXPECT_LE(found.ranked[i - 1].seconds(), found.ranked[i].seconds());
    EXPECT_LE(found.ranked.front().bytes, room.bytes);
    EXPECT_FALSE(found.neighbours.empty());
  }
}

TEST(Search, FindsTheBestOfAllDecks) {
  if (test::is_watched()) return;  // over slow links the same lines run
  expect_the_best(small_deck(4, ""), small_machine());
}

TEST(Search, FindsTheBestOverSlowLinks) {
  Machine machine = small_machine();
  machine.ranks_per_node = 2;
  machine.links.network_rate = 2e7;
  SearchDeck deck = small_deck(4, "");
  deck.ranks_on_node = 2;
  expect_the_best(deck, machine);
}

TEST(Search, FindsTheBestOfAModelWithExperts) {
  SearchDeck deck = small_deck(4, R"(
[model.moe]
experts = 4
top_k = 2
expert_feed_forward = 64
dense_layers = 1
)");
  deck.overrides = {"model.architecture=deepseek_moe", "recompute.policy=none"};
  deck.fixed = {"recompute.policy"};
  expect_the_best(deck, small_machine());
}

// A GPU whose host is as fast as itself, so that what is offloaded may win.
Machine machine_with_gpus() {
  Machine machine = small_machine();
  machine.gpus = true;
  machine.links.host_rate = 4e9;
  machine.host_sweep_rate = 4e9;
  machine.host_memory_bytes = 1e12;
  return machine;
}

SearchDeck deck_that_offloads(int ranks) {
  SearchDeck deck = small_deck(ranks, "");
  deck.overrides = {"run.device=auto"};
  deck.offloads = deck.offloads_activations = true;
  return deck;
}

TEST(Search, FindsTheBestOfDecksThatOffload) {
  SearchDeck deck = deck_that_offloads(2);
  deck.overrides.emplace_back("parallel.context=1");
  deck.overrides.emplace_back("batch.micro=2");
  deck.fixed = {"parallel.context", "batch.micro"};
  expect_the_best(deck, machine_with_gpus());
}

TEST(Search, OffloadsActivationsOfWholeBlocksWhereThatIsAllowed) {
  const SearchSpace space(deck_that_offloads(4));
  std::size_t offload = 0;
  for (const Candidate& c : space.candidates()) {
    if (!c.offloads_activations) continue;
    ++offload;
    EXPECT_FALSE(schedule::defers_weights(c.schedule));
    EXPECT_NE(space.recomputes()[c.recompute].policy, "selective");
    const auto config = space.deck().make(space.overrides(c));
    if (config) {
      EXPECT_TRUE(config->parallel.offload_activations);
    }
  }
  EXPECT_GT(offload, 0u);
  EXPECT_LT(offload, space.candidates().size() / 2);
  // What the deck says stays where it is fixed, and where nothing is offloaded.
  for (const char* how : {"fixed", "no room"}) {
    SearchDeck deck = deck_that_offloads(2);
    deck.overrides.emplace_back("parallel.offload_activations=true");
    if (how == std::string("fixed"))
      deck.fixed = {"parallel.offload_activations"};
    else
      deck.offloads = false;
    for (const SearchSpace kept(deck); const Candidate& c : kept.candidates())
      EXPECT_TRUE(c.offloads_activations) << how;
  }
}

// Also where threads share the plans, some of which are made before they are asked for.
TEST(Search, SaysTheSameEachTimeOnAnyNumberOfThreads) {
  const Machine machine = small_machine();
  const MemoryRoom room{1e9, "a test"};
  const auto text = [&](int threads) {
    PlannedDevice on = on_host(machine);
    on.threads = threads;
    const SearchSpace space(small_deck(4, ""));
    return describe(search(space, on, room, {.top = 5, .most_plans = 20}), space, room,
                    5);
  };
  const std::string once = text(1);
  EXPECT_EQ(once, text(1));
  EXPECT_EQ(once, text(2));
  EXPECT_EQ(once, text(5));
  EXPECT_NE(once.find("instead of"), std::string::npos);
  EXPECT_EQ(work_meter(), nullptr);
}

// A plan of what GPUs lack is an error, and a search does without.
TEST(Search, LeavesOutWhatGpusLack) {
  const PlannedDevice gpu{Device::cuda(0), comm::Transport::mpi};
  const PlannedDevice host{Device::host(), comm::Transport::mpi};
  SearchDeck deck = deck_that_offloads(1);
  const std::vector<std::string> mx = {"precision.compute=fp8", "precision.recipe=mxfp8"},
                                 blocks = {mx[0], "precision.recipe=te_blocks"};
  ASSERT_TRUE(deck.make(mx));
  EXPECT_THROW(plan_stages(*deck.make(mx), gpu), Error);
  EXPECT_NO_THROW(plan_stages(*deck.make(mx), host));
  EXPECT_NO_THROW(plan_stages(*deck.make(blocks), gpu));
  deck.gpus = true;
  EXPECT_FALSE(deck.make(mx));
  EXPECT_TRUE(deck.make(blocks));
}

TEST(Search, KeepsWhatIsFixed) {
  SearchDeck deck = small_deck(8, "");
  deck.overrides = {"parallel.tensor=2", "parallel.schedule=gpipe"};
  deck.fixed = {"parallel.tensor", "parallel.schedule"};
  deck.grids = {{"precision.compute", {"fp32", "bf16"}}};
  const SearchSpace space(deck);
  std::set<std::size_t> grids;
  for (const Candidate& c : space.candidates()) {
    EXPECT_EQ(c.mesh.tensor, 2);
    EXPECT_EQ(c.schedule, schedule::ScheduleKind::gpipe);
    grids.insert(c.grid);
    const auto config = deck.make(space.overrides(c));
    if (!config) continue;
    EXPECT_EQ(config->parallel.mesh, c.mesh);
    EXPECT_EQ(config->parallel.schedule, c.schedule);
    EXPECT_EQ(config->precision.compute, c.grid == 0 ? DType::f32 : DType::bf16);
  }
  EXPECT_EQ(grids.size(), 2u);
}

// Of keys that mean something with some schedules or strategies alone.
TEST(Search, FindsDecksOfWhatIsTied) {
  const Machine machine = small_machine();
  const MemoryRoom room{1e9, "a test"};
  for (const std::vector<std::string>& fixes :
       {std::vector<std::string>{"parallel.schedule=zb_v"},
        {"parallel.schedule=interleaved"},
        {"parallel.virtual_stages=2"},
        {"parallel.prefetch=2"},
        {"parallel.shard_group=2"},
        {"parallel.wrap=size", "parallel.wrap_parameters=1000"},
        {"recompute.layers=2"}}) {
    SearchDeck deck = small_deck(4, "");
    for (const std::string& fix : fixes) {
      deck.overrides.push_back(fix);
      deck.fixed.insert(fix.substr(0, fix.find('=')));
    }
    const SearchSpace space(deck);
    const SearchResult result = search(space, on_host(machine), room, {.top = 3});
    EXPECT_FALSE(result.ranked.empty()) << fixes.front();
  }
}

// A grid over a key that is searched otherwise: each of its values is tried as it is.
TEST(Search, TriesEachValueOfAGrid) {
  SearchDeck deck = small_deck(4, "");
  deck.grids = {{"parallel.sharding_strategy", {"FULL_SHARD", "ZERO1"}},
                {"recompute.policy", {"full", "none"}}};
  deck.fixed = {"parallel.sharding_strategy", "recompute.policy"};
  const SearchSpace space(deck);
  std::set<std::pair<std::string, std::string>> tried;
  for (const Candidate& c : space.candidates()) {
    const auto config = deck.make(space.overrides(c));
    if (!config) continue;
    const std::string_view policy = space.recomputes()[c.recompute].policy;
    EXPECT_EQ(config->parallel.sharding, c.sharding);
    EXPECT_EQ(config->recompute.what.full, policy == "full");
    tried.emplace(c.strategy, policy);
  }
  EXPECT_EQ(tried.size(), 4u);
}

// What is left out by the bytes that are known first would not fit when planned in full.
void expect_bounds(const SearchDeck& deck, const PlannedDevice& on) {
  const SearchSpace space(deck);
  QuickEstimate bounds(space, on), estimates(space, on);
  std::size_t below = 0;
  for (const Candidate& candidate : space.candidates()) {
    const std::optional<double> least = bounds.least_bytes(candidate);
    const std::optional<Estimate> estimate = estimates.estimate(candidate);
    ASSERT_EQ(least.has_value(), estimate.has_value());
    if (!least) continue;
    EXPECT_LE(*least, estimate->bytes) << testing::PrintToString(space.words(candidate));
    if (schedule::defers_weights(candidate.schedule))
      below += *least < estimate->bytes;
    else
      EXPECT_EQ(*least, estimate->bytes);
  }
  EXPECT_GT(below, 0u);
}

// Decks whose widths, layers, experts and batches a generator draws.
TEST(Search, BytesThatAreKnownFirstAreNoMoreThanTheEstimates) {
  const Machine machine = small_machine();
  std::mt19937 draw(7);
  const auto of = [&](std::initializer_list<int> values) {
    return *(values.begin() + draw() % values.size());
  };
  for (int round = 0; round < 4; ++round) {
    SearchDeck deck = small_deck(of({4, 8}), "");
    deck.overrides = {format("model.layers={}", of({4, 5, 6})),
                      format("model.feed_forward={}", of({96, 256})),
                      format("model.sequence={}", of({32, 64, 128})),
                      format("batch.global={}", of({8, 16})),
                      format("precision.compute={}", round % 2 == 0 ? "fp32" : "bf16")};
    if (round % 2 == 1)
      for (const std::string& key :
           {format("model.moe.experts={}", of({4, 8})), std::string("model.moe.top_k=2"),
            std::string("model.architecture=mixtral")})
        deck.overrides.push_back(key);
    expect_bounds(deck, on_host(machine));
  }
}

// Memory for some decks only: the search counts as too large what estimates do.
TEST(Search, LeavesOutWhatTheEstimatesLeaveOut) {
  const Machine machine = small_machine();
  const PlannedDevice on = on_host(machine);
  const SearchSpace space(small_deck(8, ""));
  QuickEstimate quick(space, on);
  std::vector<double> bytes;
  std::size_t refused = 0;
  for (const Candidate& candidate : space.candidates())
    if (const auto estimate = quick.estimate(candidate))
      bytes.push_back((1 - estimate_margin) * estimate->bytes);
    else
      ++refused;
  std::sort(bytes.begin(), bytes.end());
  const double least = bytes.front() / (1 - estimate_margin);
  for (const std::size_t place : {std::size_t{0}, bytes.size() / 10, bytes.size() / 2}) {
    const double room = place == 0 ? bytes.front() / 2 : bytes[place];
    const SearchResult found =
        search(space, on, {room, "a test"}, {.top = 1, .most_plans = 2});
    const auto fit = std::upper_bound(bytes.begin(), bytes.end(), room) - bytes.begin();
    EXPECT_EQ(std::ssize(found.estimated), fit);
    EXPECT_EQ(found.too_large, bytes.size() - static_cast<std::size_t>(fit));
    EXPECT_EQ(found.refused, refused);
    EXPECT_DOUBLE_EQ(found.least_bytes, least) << room;
  }
}

TEST(Search, SaysWhatTheLeastNeedsWhereNothingFits) {
  const Machine machine = small_machine();
  const SearchSpace space(small_deck(2, ""));
  const SearchResult found = search(space, on_host(machine), {1000, "a test"}, {});
  EXPECT_TRUE(found.ranked.empty());
  EXPECT_EQ(found.too_large + found.refused, found.candidates);
  EXPECT_GT(found.least_bytes, 1000);
}

}  // namespace
}  // namespace trireme::plan
