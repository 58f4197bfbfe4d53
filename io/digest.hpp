// XXH3-128 of bytes that come in pieces.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace trireme::io {

class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void add(const void* data, std::size_t bytes);
  // Of all bytes so far: 32 hexadecimal digits, in the order that xxhsum prints.
  std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_of(std::string_view bytes);

// The first 64 bits of a digest's text.
std::uint64_t first_half(const std::string& digest);

}  // namespace trireme::io
