// open_shared(): the files of a source, looked into once for all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "io/shared_source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "io/file_table.hpp"
#include "io/open_files.hpp"

namespace trireme::io {
namespace {

FileTable table_at(const std::string& index) {
  if (index.empty()) return {};
  std::string problem;
  FileTable table = kept_files(index, problem);
  if (!problem.empty())
    log::warn("{}: the files of the data are looked into again", problem);
  return table;
}

// Few files are looked into as fast as an index is read.
void keep(const std::string& index, const FileTable& table) {
  if (index.empty() || !table.is_new() || table.used() <= most_open_files) return;
  try {
    keep_files(index, table);
  } catch (const Error& error) {
    log::warn("{}: the next start looks into the {} files of the data again",
              error.what(), static_cast<std::int64_t>(table.used()));
  }
}

std::unique_ptr<SampleSource> open_with(FileTable& table, const SourceConfig& config,
                                        const OpenSource& open) {
  const FileTableInUse in_use(table);
  return open(config);
}

// A host that lacks the data, or has others, is known at the start.
void try_first_sample(const SampleSource& source, const SourceConfig& config) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.sequence) + 1);
  source.sample(0, tokens);
}

}  // namespace

bool reads_files(const SourceConfig& config) {
  switch (config.kind) {
    case SourceKind::bytes:
    case SourceKind::tokens:
    case SourceKind::megatron:
    case SourceKind::llmc: return true;
    case SourceKind::blend:
      return std::all_of(
          config.blend.begin(), config.blend.end(), [](const BlendPart& part) {
            return part.kind != SourceKind::text && part.kind != SourceKind::chat;
          });
    default: return false;
  }
}

std::unique_ptr<SampleSource> open_shared(comm::World& world, const SourceConfig& config,
                                          const OpenSource& open,
                                          const SharedSource& shared) {
  std::unique_ptr<SampleSource> source;
  if (!reads_files(config)) {
    world.agree([&] { source = open(config); });
    return source;
  }
  std::string found;
  world.agree([&] {
    if (world.rank() != 0) return;
    FileTable table = table_at(shared.index);
    table.call_for_each_file(shared.gets_on);
    source = open_with(table, config, open);
    keep(shared.index, table);
    found = table.text();
  });
  found = world.broadcast(found);
  world.agree([&] {
    if (world.rank() == 0) return;
    FileTable told = FileTable::told(found);
    if (shared.reads && told.files() <= most_open_files) {
      source = open(config);
      return;
    }
    source = open_with(told, config, open);
    if (shared.reads) try_first_sample(*source, config);
  });
  return source;
}

}  // namespace trireme::io
