// Lane: which rows of which texts run in the next step (continuous batching).
// SPDX-License-Identifier: Apache-2.0
// Source: Yu et al., "Orca", 2022, section 4; Agrawal et al., "Sarathi-Serve", 2024
// (prompts in chunks beside the tokens of other texts).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <vector>

#include "infer/block_cache.hpp"
#include "infer/generation.hpp"
#include "infer/paged_attention.hpp"

namespace trireme::infer {

struct BatchOptions {
  std::int64_t step_tokens = 512;  // rows of a step at most
  // Prompt tokens per text and step (chunked prefill), at most step_tokens.
  std::int64_t chunk = 128;
  std::int64_t texts = 64;               // at once
  std::int64_t block = 16;               // positions of a block of the cache
  std::int64_t cache_bytes = 4LL << 30;  // of this rank
  CacheType cache{};
};

// What the lanes of all ranks must know of a model.
struct LaneModel {
  std::int64_t positions = 0;  // of a text, prompt included
  bool recurrent = false;      // a layer keeps a state: texts are cut alike every time
  // RoPE scaling that depends on the text's length (longrope, dynamic NTK): it changes
  // beyond this many positions; 0: it does not.
  std::int64_t rope_original_length = 0;
  // true (dynamic): every length has its own frequencies, baked into cached keys. false
  // (longrope): one other set of frequencies, and the cache is recomputed once.
  bool rope_per_length = false;
};

// A text that runs.
struct RunningText {
  std::size_t number = 0;                           // of its generation
  std::vector<std::int32_t> tokens{};               // prompt and what was added
  std::int64_t done = 0;                            // positions in the cache
  std::int64_t place = 0;                           // for states, among the lane's
  std::vector<std::vector<std::int32_t>> blocks{};  // a table for each group
  Generated made{};
};

// Texts are cut into pieces at multiples of `chunk` from their beginning, and into single
// tokens behind the prompt, never otherwise: what a step holds besides is of no account.
// Where no block is free, the text that came last is preempted: it gives its blocks back
// and is run again later, from its beginning. All decisions follow from the order of
// calls: all ranks of a mesh take the same.
class Lane {
 public:
  // Numbers of generations that wait; shared by the lanes.
  using Queue = std::deque<std::size_t>;
  using Generations = std::vector<Generation>;
  // pools: of each group of the cache, with its window.
  Lane(const BatchOptions& options, const LaneModel& model, std::vector<BlockPool> pools,
       std::vector<std::int64_t> windows, Range places, const Generations& generations,
       Queue& queue);

  struct Piece {
    RunningText* text;
    std::int64_t count;  // rows
    bool samples;        // its last row says which token comes next
  };
  // The pieces of the next step; none where it is idle, and only there.
  std::vector<Piece> plan();
  // Nothing runs and nothing waits.
  bool is_idle() const {
    return running_.empty() && preempted_.empty() && queue_.empty();
  }
  // What the step of these pieces gave: for each that samples, a token and its
  // log-probabilities. Texts that ended are given to `done` and leave.
  void take_in(const std::vector<Piece>& pieces, std::span<const std::int32_t> tokens,
               std::span<const TokenProbability> probabilities,
               const std::function<void(std::size_t, Generated&&)>& done);

  // Positions that decide how the rows of a step turn (nn::Microbatch::text_length).
  std::int64_t text_length(const std::vector<Piece>& pieces) const;
  std::int64_t preemptions() const { return preemptions_; }

 private:
  using Texts = std::list<RunningText>;
  std::int64_t next_rows(const RunningText& text) const;
  std::int64_t turning(const RunningText& text) const;
  bool reserve(RunningText& text, std::int64_t positions);
  void give_back(RunningText& text);
  void give_passed(RunningText& text);
  void preempt_last();
  bool make_room(Texts::iterator text, std::int64_t positions);
  // Rows of texts that run, all of one kind, which it returns (see turning()). Pieces are
  // left out only where the last text that runs has no room and is preempted for itself.
  std::optional<std::int64_t> plan_running(std::int64_t& left,
                                           std::vector<Piece>& pieces);
  void admit(std::int64_t& left, std::optional<std::int64_t>& kind,
             std::vector<Piece>& pieces);
  void add(RunningText& text, std::int64_t rows, std::vector<Piece>& pieces) const;
  // Nothing while the text goes on.
  std::optional<FinishReason> finish_of(const RunningText& text) const;

  BatchOptions options_;
  LaneModel model_;
  std::vector<BlockPool> pools_;
  std::vector<std::int64_t> windows_;
  std::vector<std::int64_t> places_;  // that are free
  const Generations& generations_;
  Queue& queue_;
  Texts running_;
  std::deque<RunningText> preempted_;
  std::int64_t preemptions_ = 0, turn_ = 0;
};

}  // namespace trireme::infer
