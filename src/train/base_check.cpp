// Checks of the model beside adapters when a run goes on.
// SPDX-License-Identifier: Apache-2.0
#include "train/base_check.hpp"

#include <cmath>

#include "base/log.hpp"
#include "config/deck_table.hpp"
#include "convert/base_digest.hpp"

namespace trireme::train {
namespace {

// The adapters of the run that wrote a checkpoint; none where an older program did, with
// other keys.
nn::AdapterConfig adapters_of(const io::CheckpointReader& from) try {
  const auto deck =
      io::Deck::parse(from.info().deck, "checkpoint's deck", {}, config::deck_table());
  return config::read_run_config(deck, from.info().mesh.size(), 0).adapter.matrices;
} catch (const Error&) {
  return {};
}

// What a module's matrices were trained to be multiplied by they stay multiplied by.
void check_scale(const io::CheckpointReader& from, const std::string& module,
                 const nn::AdapterConfig& before, const nn::AdapterConfig& now) {
  const auto was = before.of(module), is = now.of(module);
  require(!was || std::abs(was->scale - is->scale) <= 1e-12 * std::abs(was->scale),
          Status::bad_content,
          "{}: its adapter of '{}' was trained with the factor {}, and this run would "
          "multiply it by {}: write the adapter.alpha, rslora, alpha_pattern and "
          "rank_pattern that it was trained with, or start from the beginning in "
          "another run.directory",
          from.directory(), module, was ? was->scale : 0, is->scale);
}

}  // namespace

std::string identify_base(comm::World& world, const config::RunConfig& config,
                          const io::CheckpointReader* from) {
  const model::BaseCodes kind = config.adapter.quantize;
  const std::string& path = config.start_from;
  const std::string before = from != nullptr ? from->info().base : std::string();
  // 1. a run without codes
  if (kind == model::BaseCodes::none) {
    if (before.empty()) return {};
    throw comm::Agreed(
        Status::bad_content,
        format("{}: its adapter was trained beside a model of codes (adapter.quantize = "
               "\"{}\"), which it lacks, and this run has adapter.quantize = \"none\": "
               "write the first again, or start from the beginning in another "
               "run.directory",
               from->directory(), before.substr(0, before.find(':'))));
  }
  // 2. one that goes on
  if (!before.empty()) {
    world.agree([&] {
      convert::check_base_digest(from->directory(), before, path, kind, world.rank(),
                                 world.size());
    });
    return before;
  }
  if (from != nullptr)
    log::warn(
        "{}: was written by a program that did not note what the model of \"{}\" "
        "(model.from) was: it is taken to be the same still",
        from->directory(), path);
  // 3. one that begins
  std::string share;
  world.agree(
      [&] { share = convert::share_of_base_digest(path, world.rank(), world.size()); });
  const auto shares = world.gather_text(share);
  return world.broadcast(world.rank() == 0 ? convert::join_base_digest(kind, shares)
                                           : std::string());
}

void check_no_numbers(const io::CheckpointReader& from,
                      const std::optional<engine::FrozenBase>& base) {
  if (!base) return;
  for (const engine::CodedParam& coded : base->params())
    for (const NamedBox& named : coded.param->boxes)
      require(
          !from.has("model/" + named.tensor), Status::bad_content,
          "{}: holds '{}' as numbers, which would be lost: this run keeps it as codes "
          "of model.from (adapter.quantize). Write the adapter.quantize and "
          "adapter.modules_to_save that it was trained with, or start from the "
          "beginning in another run.directory",
          from.directory(), named.tensor);
}

void check_no_lost_adapters(const io::CheckpointReader& from,
                            const nn::AdapterConfig& adapter) {
  constexpr std::string_view prefix = "model/";
  const nn::AdapterConfig before = adapters_of(from);
  for (const io::TensorEntry& entry : from.tensors()) {
    const std::string_view path = entry.path;
    if (!path.starts_with(prefix) || !nn::is_adapter_tensor(path)) continue;
    for (const std::string_view suffix :
         {nn::down_suffix, nn::up_suffix, nn::magnitude_suffix}) {
      if (!path.ends_with(suffix)) continue;
      const std::string module(
          path.substr(prefix.size(), path.size() - prefix.size() - suffix.size()));
      require(
          adapter.exists() && adapter.of(module), Status::bad_content,
          "{}: holds an adapter of '{}', which this run has not and would drop: write "
          "the adapter.rank and adapter.targets that it was trained with, or start "
          "from the beginning in another run.directory",
          from.directory(), module);
      check_scale(from, module, before, adapter);
      require(suffix != nn::magnitude_suffix || adapter.dora, Status::bad_content,
              "{}: holds lengths of the rows of '{}', which this run would drop: write "
              "adapter.dora = true, with which it was trained",
              from.directory(), module);
    }
  }
}

}  // namespace trireme::train
