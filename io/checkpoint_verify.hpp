// Comparing the files of a checkpoint with the digests that its manifest holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/checkpoint_manifest.hpp"

namespace trireme::io {

// A part of a file that has a digest of its own: a box of a tensor, all that is in no
// box, or a file without boxes. Every byte of every file is in one region.
struct Region {
  struct Range {
    std::int64_t begin = 0, bytes = 0;
  };
  std::string file;
  std::vector<Range> ranges;
  std::string digest;
  std::string tensor;  // "": no box

  std::int64_t bytes() const;
};

// Those of the files from number `first` to before `last`, in the order of the files and
// of the bytes in them. Throws Error(bad_content) when boxes of the manifest overlap or
// lie outside their file.
std::vector<Region> regions(const std::string& directory, const Manifest& manifest,
                            std::size_t first, std::size_t last);

struct Verification {
  std::vector<std::string> damage;  // a message for each region that differs
  std::int64_t bytes = 0;           // that were compared
};

// Where the files that a manifest lists lie among the bytes of all the checkpoint's.
struct SharePlace {
  double before = 0;  // bytes of files before the first
  double total = -1;  // of all; -1: the manifest lists them all
};

// Compares share `part` of `parts` of the bytes: about as many for each part, cut between
// regions, so that the parts together compare every byte once. `files`: of the
// checkpoint's folder; those that were opened here stay open, for reading what was
// compared. The manifest lists at least the files that reach into the share.
Verification verify_share(PlainFiles& files, const Manifest& manifest, int part,
                          int parts, const SharePlace& place = {});
// Does a file with the bytes from `begin` to `end` of `total` reach into a share?
bool reaches_into(double begin, double end, double total, int part, int parts);
Verification verify_share(const std::string& directory, const Manifest& manifest,
                          int part, int parts);

// The parts of a file of `bytes` bytes that lie outside `boxes` (sorted, disjoint).
std::vector<Region::Range> outside(std::int64_t bytes,
                                   const std::vector<Region::Range>& boxes);

}  // namespace trireme::io
