// The table of all deck keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "io/deck.hpp"

namespace trireme::config {

std::span<const io::DeckKey> deck_table();

}  // namespace trireme::config
