// State that a checkpoint may lack: what starts anew, and what is an error.
// SPDX-License-Identifier: Apache-2.0
#include "train/missing_state.hpp"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "config/keys.hpp"

namespace trireme::train {
namespace {

using Paths = std::set<std::string>;
using Kind = bool (*)(const std::string& path);

bool is_feedback(const std::string& path) {
  return path.starts_with("optimizer/feedback/");
}
bool is_moment1(const std::string& path) {
  return path.starts_with("optimizer/moment1/") ||
         path.starts_with("optimizer/moment1_scale/");
}
bool is_first_moment(const std::string& path) {
  return path.starts_with("optimizer/moment1/");
}
bool is_second_moment(const std::string& path) {
  return path.starts_with("optimizer/moment2/");
}
bool is_scale(const std::string& path) {
  return path.starts_with("optimizer/moment1_scale/") ||
         path.starts_with("optimizer/moment2_scale/");
}
bool is_outer_momentum(const std::string& path) {
  return path.starts_with("optimizer/outer_momentum/");
}
bool is_loss_scale(const std::string& path) { return path == "optimizer/loss_scale"; }
bool is_refused_steps(const std::string& path) {
  return path == "optimizer/refused_steps";
}

Paths lines_of(const std::string& text) {
  Paths all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) all.insert(line);
  return all;
}

std::string text_of(const Paths& paths) {
  std::string text;
  for (const std::string& path : paths) text += path + '\n';
  return text;
}

// What the checkpoint has, and who wrote it.
struct Stored {
  Paths paths;  // of the optimizer's tensors
  Paths sizes;  // the same, each as "path elements"
  std::string deck;

  bool has(Kind kind) const { return std::any_of(paths.begin(), paths.end(), kind); }
};

Stored read_stored(const io::CheckpointReader& reader) {
  Stored stored;
  stored.deck = reader.info().deck;
  for (const auto& entry : reader.tensors()) {
    if (!entry.path.starts_with("optimizer/")) continue;
    stored.paths.insert(entry.path);
    stored.sizes.insert(format("{} {}", entry.path, entry.shape.elements()));
  }
  return stored;
}

// Whether any rank has a box of the kind.
bool wanted(comm::World& world, const std::vector<io::TensorBox>& boxes, Kind kind) {
  const bool mine = std::any_of(boxes.begin(), boxes.end(),
                                [&](const auto& box) { return kind(box.path); });
  return world.max(mine ? 1 : 0) > 0;
}

// The tensors of the kind that some rank wants and the checkpoint lacks.
Paths lacking(comm::World& world, const std::vector<io::TensorBox>& boxes,
              const Stored& stored, Kind kind) {
  Paths all;
  for (const auto& box : boxes)
    if (kind(box.path) && !stored.paths.contains(box.path)) all.insert(box.path);
  for (const std::string& text : world.gather_text(text_of(all)))
    all.merge(lines_of(text));
  return lines_of(world.broadcast(text_of(all)));
}

// What the checkpoint's deck says of its moments.
struct Writer {
  std::string optimizer;            // the keys that say how it was chosen
  std::vector<std::string> frozen;  // those that froze tensors

  // Those, or all that could be.
  std::string frozen_by(const char* between) const {
    if (frozen.empty()) return format("optimizer.groups{}[adapter]", between);
    return frozen.front() + (frozen.size() > 1 ? between + frozen.back() : "");
  }
};

// Empty where an older program wrote it, with other keys.
Writer writer_of(const Stored& stored) {
  namespace key = config::key;
  try {
    const auto deck =
        io::Deck::parse(stored.deck, "checkpoint's deck", {}, config::deck_table());
    const auto show = [&](const io::DeckKey& one) {
      return full_name(one) + " = " + deck.value_text(one);
    };
    Writer writer;
    writer.optimizer = show(key::optimizer.name);
    if (!stored.has(is_moment1)) writer.optimizer += ", " + show(key::optimizer.betas);
    const std::vector<std::string> groups = deck[key::optimizer.groups];
    if (std::ranges::any_of(groups, [](const std::string& group) {
          return group.find(" frozen") != group.npos;
        }))
      writer.frozen.push_back(show(key::optimizer.groups));
    if (deck[key::adapter.rank] > 0)
      writer.frozen.push_back(show(key::adapter.modules_to_save));
    return writer;
  } catch (const Error&) {
    return {};
  }
}

constexpr auto or_anew = "or start from the beginning in another run.directory";

// Tensors of a checkpoint that has moments of others, but none of them.
Paths frozen_of(const Stored& stored, const Paths& tensors) {
  Paths frozen;
  if (!stored.has(is_moment1) && !stored.has(is_second_moment)) return frozen;
  for (const std::string& tensor : tensors)
    if (!stored.paths.contains("optimizer/moment1/" + tensor) &&
        !stored.paths.contains("optimizer/moment2/" + tensor))
      frozen.insert(tensor);
  return frozen;
}

// Why a run of `optimizer` cannot go on without these moments, and how it can.
std::string why_not(const std::string& path, const std::string& optimizer,
                    const Stored& stored, const Paths& first, const Paths& second) {
  const std::string which = second.empty()  ? "first moments"
                            : first.empty() ? "second moments"
                                            : "second moments, and no first ones,";
  const std::size_t head = std::string("optimizer/moment1/").size();
  Paths tensors;
  for (const Paths* paths : {&first, &second})
    for (const std::string& one : *paths) tensors.insert(one.substr(head));
  const Paths& some = second.empty() ? first : second;
  const std::string name = some.begin()->substr(head);
  const std::string of =
      some.size() == 1 ? name : format("{} tensors, {} among them", some.size(), name);
  const std::string lacks =
      format("{}: has no {} of {}, but optimizer.name = \"{}\" goes on with them", path,
             which, of, optimizer);
  const Writer wrote = writer_of(stored);
  const std::size_t frozen = frozen_of(stored, tensors).size();
  const std::string again =
      wrote.frozen_by(" and ") + (wrote.frozen.empty() ? " as when it was written" : "");
  if (frozen == tensors.size())
    return lacks + format(": they were frozen by {}; write {}, {}",
                          wrote.frozen_by(" or "), again, or_anew);
  if (wrote.optimizer.empty())
    return lacks +
           format(": another optimizer wrote it; write its optimizer.name, {}", or_anew);
  return lacks + format(": it was written with {}; write {}{}, {}", wrote.optimizer,
                        wrote.optimizer,
                        frozen > 0 ? ", and " + again + ", which froze some" : "",
                        or_anew);
}

constexpr auto moments_hint =
    "its moments are not those of this deck's precision.moments; write precision.moments "
    "(or precision.recipe) as in the deck that it was written with, or start from the "
    "beginning in another run.directory";

// Codes do not become numbers here, nor codes of another kind. Of weights this has been
// looked at before, so that it is no matter of the model.
void check_moments(comm::World& world, const io::CheckpointReader& reader,
                   const std::vector<io::TensorBox>& boxes, const Stored& stored) {
  world.agree([&] {
    for (const io::TensorBox& box : boxes) {
      const std::string& path = box.path;
      if (!is_first_moment(path) && !is_second_moment(path)) continue;
      if (!stored.paths.contains(path)) continue;
      try {
        reader.require_tensor(path, box.whole, box.data.dtype());
      } catch (const Error& error) {
        fail(error.status(), "{}: {}", error.what(), moments_hint);
      }
    }
  });
}

}  // namespace

std::vector<io::TensorBox> boxes_to_load(comm::World& world,
                                         const io::CheckpointReader& reader,
                                         std::vector<io::TensorBox> boxes,
                                         const std::string& optimizer) {
  const bool feedback = wanted(world, boxes, is_feedback);
  const bool moment1 = wanted(world, boxes, is_moment1);
  const bool moment2 = wanted(world, boxes, is_second_moment);
  const bool loss_scale = wanted(world, boxes, is_loss_scale);
  const bool outer = wanted(world, boxes, is_outer_momentum);
  const bool refused = wanted(world, boxes, is_refused_steps);
  if (!feedback && !moment1 && !moment2 && !loss_scale && !outer && !refused)
    return boxes;
  const Stored stored = read_stored(reader);
  const auto leave_out = [&](Kind kind, const char* line) {
    std::erase_if(boxes, [&](const auto& box) { return kind(box.path); });
    log::info("resume    {}", line);
  };
  // 1. moments
  const Paths second = lacking(world, boxes, stored, is_second_moment);
  const Paths first = lacking(world, boxes, stored, is_first_moment);
  if (!second.empty() || (!first.empty() && stored.has(is_moment1)))
    throw comm::Agreed(Status::bad_content,
                       why_not(reader.directory(), optimizer, stored, first, second));
  const Paths scales = lacking(world, boxes, stored, is_scale);
  if (!scales.empty() && stored.has(is_moment1))
    throw comm::Agreed(
        Status::bad_content,
        format("{}: has no '{}': {}", reader.directory(), *scales.begin(), moments_hint));
  check_moments(world, reader, boxes, stored);
  if (moment1 && !stored.has(is_moment1))
    leave_out(is_moment1,
              "momentum starts from zero: the checkpoint was written without any "
              "(optimizer.betas[0] = 0)");
  if (outer && !stored.has(is_outer_momentum))
    leave_out(is_outer_momentum,
              "the outer step's momentum starts from zero: the checkpoint was written "
              "without any (optimizer.outer.momentum = 0)");
  // 2. the scale of the loss
  if (loss_scale && !stored.has(is_loss_scale))
    leave_out(is_loss_scale,
              "the loss scale starts from precision.loss_scale: the checkpoint was not "
              "written with precision.compute = \"fp16\" and has none");
  if (refused && !stored.has(is_refused_steps))
    leave_out(is_refused_steps,
              "no step counts as refused before: the checkpoint was written without "
              "health.nan or health.spike = \"skip\"");
  // 3. error feedback
  const bool lacks = std::any_of(boxes.begin(), boxes.end(), [&](const auto& box) {
    return is_feedback(box.path) &&
           !stored.sizes.contains(format("{} {}", box.path, box.whole.elements()));
  });
  if (world.max(lacks ? 1 : 0) > 0)
    leave_out(is_feedback,
              "error feedback starts from zero: the checkpoint has none of this mesh");
  return boxes;
}

}  // namespace trireme::train
