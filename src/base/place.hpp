// Place: how one value, and its gradient, lie across the ranks of one mesh axis.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

enum class Place : std::uint8_t {
  replicate,  // the same value on every rank; its gradient is a partial sum on each
  invariant,  // the same value on every rank; its gradient is the same on every rank
  varying,    // a different value on every rank; so is its gradient
  partial,    // the value is the sum over ranks; its gradient is the same on every rank
};

// The place of the gradient of a value that lies at `place`.
constexpr Place gradient_place(Place place) {
  switch (place) {
    case Place::replicate: return Place::partial;
    case Place::partial: return Place::replicate;
    default: return place;
  }
}
static_assert(gradient_place(gradient_place(Place::partial)) == Place::partial);

constexpr std::string_view name_of(Place place) {
  switch (place) {
    case Place::replicate: return "replicate";
    case Place::invariant: return "invariant";
    case Place::varying: return "varying";
    case Place::partial: return "partial";
  }
  return "?";
}

}  // namespace trireme
