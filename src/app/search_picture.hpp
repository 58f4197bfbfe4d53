// The picture of a search: memory of a rank against the time of a step.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "plan/search.hpp"

namespace trireme::app {

// An SVG document that is legible on light and on dark pages: a small dot for each place
// where quick estimates put decks, a large one for each deck that was planned, the
// frontier (no planned deck takes less time in less memory), the room, and the winner.
// What takes more than three times as long as the winner is left out.
std::string search_picture(const plan::SearchResult& result, const plan::MemoryRoom& room,
                           const std::string& title);

}  // namespace trireme::app
