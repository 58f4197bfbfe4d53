// Digest: XXH3-128, computed by xxHash.
// SPDX-License-Identifier: Apache-2.0
#include "io/digest.hpp"

// GCC 12 takes the undefined vectors of its own AVX-512 intrinsics for a mistake of ours.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/number.hpp"
#include "base/text.hpp"

namespace trireme::io {

struct Digest::State {
  XXH3_state_t state;
};

// The state is aligned to 64 bytes, which make_unique respects.
Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->state);
}

Digest::~Digest() = default;

void Digest::add(const void* data, std::size_t bytes) {
  XXH3_128bits_update(&state_->state, data, bytes);
}

std::string Digest::text() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->state));
  return hexadecimal(std::as_bytes(std::span(canonical.digest)));
}

std::string digest_of(std::string_view bytes) {
  Digest digest;
  digest.add(bytes.data(), bytes.size());
  return digest.text();
}

std::uint64_t first_half(const std::string& digest) {
  return parse_hexadecimal(digest.substr(0, 16)).value();
}

}  // namespace trireme::io
