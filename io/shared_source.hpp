// A source that all ranks open: rank 0 looks into its files and tells the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "comm/world.hpp"
#include "io/sample_source.hpp"

namespace trireme::io {

struct SharedSource {
  // Where what was found of the files is kept for the next start, if they are more than
  // stay open; empty: nowhere. An index that is damaged, of another version or cannot be
  // written costs a warning, and what it says of files that changed is found anew.
  std::string index = {};
  // Whether this rank is going to read samples. One that is not opens no file, and one
  // that is those alone that it reads, unless they are few: these it opens at once.
  bool reads = true;
  // Called now and then while files are looked into; may be empty.
  std::function<void()> gets_on = {};
};

// Opens it by `open`, which is open_source() or adds text to it. Sources that keep texts
// in memory (no reads_files()) are opened by each rank for itself. Collective over the
// world. Throws an Agreed error with what `open` has thrown on rank 0, or on another rank
// whose host has not the same files.
std::unique_ptr<SampleSource> open_shared(comm::World& world, const SourceConfig& config,
                                          const OpenSource& open,
                                          const SharedSource& shared);

// Whether samples are read from files while they are asked for: not those of texts, which
// every rank keeps in memory, nor those that are computed.
bool reads_files(const SourceConfig& config);

}  // namespace trireme::io
