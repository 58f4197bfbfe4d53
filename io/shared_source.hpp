// A source that all ranks open: rank 0 looks into its files and tells the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
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
  std::function<void()> on_file_read = {};
  // Told how many bytes this rank keeps: tokens of texts that were read whole, and where
  // documents lie. May be empty.
  std::function<void(std::int64_t)> keeps = {};
};

// Opens it by `open`, which is open_source() or adds text to it. What has to be made of
// whole files, tokens of texts and ends of documents, is made by rank 0 and told to the
// others; tokens are kept by those that read. Collective over the world. Throws an Agreed
// error with what `open` has thrown on rank 0, or on another rank whose host has not the
// same files.
std::unique_ptr<SampleSource> open_shared(comm::World& world, const SourceConfig& config,
                                          const OpenSource& open,
                                          const SharedSource& shared);

// Whether opening it reads whole files, to make tokens of texts or to find where
// documents end: nobody knows how long that takes.
bool reads_whole_files(const SourceConfig& config);
// Whether it keeps tokens of texts in memory.
bool keeps_texts(const SourceConfig& config);

}  // namespace trireme::io
