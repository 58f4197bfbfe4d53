// The table of all deck keys: the sections' rows one after another.
// SPDX-License-Identifier: Apache-2.0
#include "config/deck_table.hpp"

#include <array>

#include "config/keys.hpp"

namespace trireme::config {

namespace {

constexpr std::array<const Section*, 28> all_sections = {
    &key::run,        &key::train,     &key::dpo,
    &key::model,      &key::position,  &key::model_attention,
    &key::rope,       &key::latent,    &key::linear,
    &key::moe,        &key::dropout,   &key::embedding,
    &key::adapter,    &key::data,      &key::batch,
    &key::parallel,   &key::comm,      &key::precision,
    &key::attention,  &key::recompute, &key::optimizer,
    &key::schedule,   &key::muon,      &key::outer,
    &key::checkpoint, &key::metrics,   &key::health,
    &key::debug};

constexpr std::size_t count_rows() {
  std::size_t count = 0;
  for (const Section* section : all_sections) count += section->rows().size();
  return count;
}

constexpr auto join_rows() {
  std::array<io::DeckKey, count_rows()> all{};
  std::size_t at = 0;
  for (const Section* section : all_sections)
    for (const Row& row : section->rows()) all[at++] = *row.key;
  return all;
}

constexpr auto all_keys = join_rows();

}  // namespace

std::span<const Section* const> sections() { return all_sections; }

std::span<const io::DeckKey> deck_table() { return all_keys; }

}  // namespace trireme::config
