// campaign_tool: what the campaign's shell scripts cannot do themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::campaign {

using Words = std::vector<std::string>;

// The same numbers on every machine: the distributions of <random> are not fixed by the
// standard, so only the engine is used.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : engine_(seed) {}
  // A number from 0 to count - 1.
  std::size_t below(std::size_t count) {
    return count == 0 ? 0 : static_cast<std::size_t>(engine_() % count);
  }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937_64 engine_;
};

// Whole files. Throw std::runtime_error.
std::string read_file(const std::string& path);
void write_file(const std::string& path, std::string_view bytes);

// A deck with one to three mutations of its text.
std::string mutated_deck(const std::string& text, std::uint64_t seed);

// Changes an entry of a manifest and signs it anew; returns what was changed. `kind` is a
// word of manifest_kinds().
std::string edit_manifest(const std::string& path, const std::string& kind,
                          std::uint64_t seed);
Words manifest_kinds();
// Makes size and digests of a checkpoint's file in its manifest those of the file as it
// is now, and signs the manifest anew.
void adopt_file(const std::string& folder, const std::string& file);

// Files of the "tokens" source that are not as they should be, by kind; `other` is a file
// that they lead to.
void write_tokens(const std::string& path, const std::string& kind,
                  const std::string& other, std::uint64_t seed);
Words tokens_kinds();
// Replaces a dataset of `path`, the `index`-th in order of names, by something that leads
// elsewhere.
void spoil_dataset(const std::string& path, const std::string& kind,
                   const std::string& other, std::uint64_t seed);
Words spoil_kinds();
// Throws unless every dataset of the file can be read.
void check_hdf5(const std::string& path);

}  // namespace trireme::campaign
