// SweepManifest: the points of a parameter sweep, as a file and in memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/arguments.hpp"

namespace trireme::app {

struct SweepPoint {
  std::string name;                    // of its run directory, beside the manifest
  std::vector<std::string> overrides;  // "section.key=value", of this point alone
  std::string digest;  // of the deck in force, with the directory left out
};

struct SweepManifest {
  std::string directory;  // that the manifest lies in
  std::string deck;       // name of the deck's copy beside it
  std::string deck_digest;
  std::int64_t ranks = 1;          // of each point
  std::vector<std::string> base;   // overrides of all points
  std::vector<SweepPoint> points;  // by index

  // Reads a manifest and holds the deck's copy against its digest. Throws
  // Error(missing_input) or Error(bad_content).
  static SweepManifest read(const std::string& path);
  std::string toml() const;

  std::string run_directory(std::int64_t index) const;
  // What `trireme train` is given for a point: the deck, then all overrides.
  std::vector<std::string> deck_words(std::int64_t index) const;
};

// deck_words() of the point that --manifest and --index name.
std::vector<std::string> point_words(const Arguments& arguments);

// "point-0007"
std::string point_name(std::int64_t index);

// The override that says where a run lies.
std::string directory_override(const std::string& directory);

}  // namespace trireme::app
