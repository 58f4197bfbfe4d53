// Lane: plans steps, takes in what they gave.
// SPDX-License-Identifier: Apache-2.0
#include "infer/lane.hpp"

#include <algorithm>

#include "base/split.hpp"

namespace trireme::infer {

Lane::Lane(const BatchOptions& options, const LaneModel& model,
           std::vector<BlockPool> pools, std::vector<std::int64_t> windows, Range places,
           const Generations& generations, Queue& queue)
    : options_(options),
      model_(model),
      pools_(std::move(pools)),
      windows_(std::move(windows)),
      generations_(generations),
      queue_(queue) {
  for (std::int64_t place = places.end; place-- > places.begin;) places_.push_back(place);
}

std::int64_t Lane::next_rows(const RunningText& text) const {
  const auto prompt = static_cast<std::int64_t>(generations_[text.number].prompt.size());
  const auto length = static_cast<std::int64_t>(text.tokens.size());
  if (text.done < prompt) return std::min(options_.chunk, prompt - text.done);
  return model_.recurrent ? 1 : std::min(options_.chunk, length - text.done);
}

// Texts for which this differs turn otherwise. By length: a long prompt turns as that
// many positions do, and what follows as each does at the end of a text.
std::int64_t Lane::turning(const RunningText& text) const {
  const auto length = static_cast<std::int64_t>(text.tokens.size());
  if (model_.rope_original_length == 0) return 0;
  if (!model_.rope_per_length) return length > model_.rope_original_length ? 1 : 0;
  const auto prompt = static_cast<std::int64_t>(generations_[text.number].prompt.size());
  return text.done < prompt && prompt > model_.rope_original_length ? prompt : 0;
}

std::int64_t Lane::text_length(const std::vector<Piece>& pieces) const {
  if (model_.rope_per_length) return pieces.empty() ? 0 : turning(*pieces.front().text);
  std::int64_t longest = 0;
  for (const Piece& piece : pieces)
    longest = std::max(longest, static_cast<std::int64_t>(piece.text->tokens.size()));
  return longest;
}

bool Lane::reserve(RunningText& text, std::int64_t positions) {
  text.blocks.resize(pools_.size());
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& blocks = text.blocks[g];
    while (static_cast<std::int64_t>(blocks.size()) * options_.block < positions) {
      const auto block = pools_[g].take();
      if (!block) return false;
      blocks.push_back(*block);
    }
  }
  return true;
}

void Lane::give_back(RunningText& text) {
  for (std::size_t g = 0; g < text.blocks.size(); ++g)
    for (const std::int32_t block : text.blocks[g])
      if (block >= 0) pools_[g].give(block);
  text.blocks.clear();
  text.done = 0;
}

// Blocks that no later position sees.
void Lane::give_passed(RunningText& text) {
  for (std::size_t g = 0; g < text.blocks.size(); ++g) {
    if (windows_[g] == 0) continue;
    const std::int64_t passed =
        std::max<std::int64_t>(text.done - windows_[g] + 1, 0) / options_.block;
    for (std::int64_t b = passed; b-- > 0;) {
      std::int32_t& block = text.blocks[g][static_cast<std::size_t>(b)];
      if (block < 0) break;
      pools_[g].give(block);
      block = -1;
    }
  }
}

void Lane::preempt_last() {
  RunningText& text = running_.back();
  give_back(text);
  places_.push_back(text.place);
  preempted_.push_front(std::move(text));
  running_.pop_back();
  ++preemptions_;
}

bool Lane::make_room(Texts::iterator text, std::int64_t positions) {
  while (!reserve(*text, positions)) {
    const bool itself = std::next(text) == running_.end();
    require(running_.size() > 1, "{} positions of a text alone have no room in the cache",
            positions);
    preempt_last();
    if (itself) return false;
  }
  return true;
}

void Lane::add(RunningText& text, std::int64_t rows, std::vector<Piece>& pieces) const {
  const bool samples = text.done + rows == static_cast<std::int64_t>(text.tokens.size());
  pieces.push_back({&text, rows, samples});
}

// Each try without pieces has preempted a text that runs, and the last one has room.
std::vector<Lane::Piece> Lane::plan() {
  std::vector<Piece> pieces;
  std::int64_t left = options_.step_tokens;
  std::optional<std::int64_t> kind;
  const std::int64_t preemptions_before = preemptions_;
  do {
    kind = plan_running(left, pieces);
  } while (pieces.empty() && !running_.empty());
  if (preemptions_ == preemptions_before) admit(left, kind, pieces);
  require(!pieces.empty() || is_idle(), "a lane with texts has no step for them");
  return pieces;
}

std::optional<std::int64_t> Lane::plan_running(std::int64_t& left,
                                               std::vector<Piece>& pieces) {
  // Texts that turn otherwise run in steps of their own.
  std::optional<std::int64_t> kind;
  if (!running_.empty() && model_.rope_original_length > 0)
    kind = turning(*std::next(running_.begin(),
                              turn_++ % static_cast<std::int64_t>(running_.size())));
  for (auto text = running_.begin(); text != running_.end();) {
    const auto here = text++;
    const std::int64_t rows = next_rows(*here);
    if (rows > left || (kind && turning(*here) != *kind)) continue;
    if (!make_room(here, here->done + rows)) break;
    if (std::next(here) == running_.end()) text = running_.end();
    add(*here, rows, pieces);
    left -= rows;
  }
  return kind;
}

void Lane::admit(std::int64_t& left, std::optional<std::int64_t>& kind,
                 std::vector<Piece>& pieces) {
  while (!places_.empty() && (!preempted_.empty() || !queue_.empty())) {
    RunningText next;
    const bool again = !preempted_.empty();
    if (again) {
      next = std::move(preempted_.front());
    } else {
      next.number = queue_.front();
      next.tokens = generations_[next.number].prompt;
    }
    const std::int64_t rows = next_rows(next);
    const bool fits =
        rows <= left && (!kind || turning(next) == *kind) && reserve(next, rows);
    if (!fits) {
      give_back(next);
      if (again) preempted_.front() = std::move(next);
      return;
    }
    if (again)
      preempted_.pop_front();
    else
      queue_.pop_front();
    if (model_.rope_original_length > 0) kind = turning(next);
    next.place = places_.back();
    places_.pop_back();
    running_.push_back(std::move(next));
    add(running_.back(), rows, pieces);
    left -= rows;
  }
}

std::optional<FinishReason> Lane::finish_of(const RunningText& text) const {
  const Generation& wanted = generations_[text.number];
  const std::vector<std::int32_t>& made = text.made.tokens;
  const auto& ends = wanted.end_tokens;
  const bool stops = wanted.is_stopped_by && wanted.is_stopped_by(made);
  if (stops || std::find(ends.begin(), ends.end(), made.back()) != ends.end())
    return FinishReason::stop;
  const bool full = static_cast<std::int64_t>(made.size()) >= wanted.max_new_tokens ||
                    static_cast<std::int64_t>(text.tokens.size()) >= model_.positions;
  if (full) return FinishReason::length;
  return {};
}

void Lane::take_in(const std::vector<Piece>& pieces, std::span<const std::int32_t> tokens,
                   std::span<const TokenProbability> probabilities,
                   const std::function<void(std::size_t, Generated&&)>& done) {
  std::size_t next = 0;
  for (const Piece& piece : pieces) {
    RunningText& text = *piece.text;
    text.done += piece.count;
    if (piece.samples) {
      const std::int64_t before = turning(text);
      text.tokens.push_back(tokens[next]);
      text.made.tokens.push_back(tokens[next]);
      if (generations_[text.number].log_probabilities >= 0)
        text.made.probabilities.push_back(probabilities[next]);
      ++next;
      if (const auto finish = finish_of(text)) {
        text.made.finish = *finish;
        give_back(text);
        places_.push_back(text.place);
        done(text.number, std::move(text.made));
        running_.remove_if([&](const RunningText& other) { return &other == &text; });
        continue;
      }
      // All positions turn otherwise from here on.
      if (!model_.rope_per_length && turning(text) != before) {
        give_back(text);
        continue;
      }
    }
    give_passed(text);
  }
}

}  // namespace trireme::infer
