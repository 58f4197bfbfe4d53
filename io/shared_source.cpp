// open_shared(): the files of a source, looked into once for all ranks.
// SPDX-License-Identifier: Apache-2.0
#include "io/shared_source.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "comm/one_time.hpp"
#include "io/file_table.hpp"
#include "io/open_files.hpp"
#include "io/table_bytes.hpp"
#include "io/token_table.hpp"

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

// table: null where the files are looked into.
std::unique_ptr<SampleSource> open_with(FileTable* table, TokenTable& tokens,
                                        const SourceConfig& config,
                                        const OpenSource& open) {
  const TokenTableInUse tokens_in_use(tokens);
  if (table == nullptr) return open(config);
  const FileTableInUse in_use(*table);
  return open(config);
}

// A host that lacks the data, or has others, is known at the start.
void try_first_sample(const SampleSource& source, const SourceConfig& config) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(config.sequence) + 1);
  source.sample(0, tokens);
}

}  // namespace

bool keeps_texts(const SourceConfig& config) {
  const auto is_text = [](SourceKind kind) {
    return kind == SourceKind::text || kind == SourceKind::chat ||
           kind == SourceKind::preference;
  };
  return is_text(config.kind) ||
         std::ranges::any_of(config.blend, is_text, &BlendPart::kind);
}

bool reads_whole_files(const SourceConfig& config) {
  return config.packing == Packing::best_fit || keeps_texts(config);
}

std::unique_ptr<SampleSource> open_shared(comm::World& world, const SourceConfig& config,
                                          const OpenSource& open,
                                          const SharedSource& shared) {
  std::unique_ptr<SampleSource> source;
  if (config.kind == SourceKind::synthetic) {
    world.agree([&] { source = open(config); });
    return source;
  }
  TokenTable tokens;
  const auto limit =
      reads_whole_files(config) ? comm::WaitLimit::none : comm::WaitLimit::usual;
  const std::string found = comm::broadcast_from_first(world, limit, [&] {
    FileTable table = table_at(shared.index);
    table.set_file_callback(shared.on_file_read);
    source = open_with(&table, tokens, config, open);
    keep(shared.index, table);
    TableWriter out;
    out.word(table.text());
    out.word(tokens.heads());
    return std::move(out.text);
  });
  TableReader tables(found);
  const std::string files = tables.word();
  tokens.tell(world, tables.word(), shared.reads);
  world.agree([&] {
    if (world.rank() == 0) return;
    FileTable told = FileTable::told(files);
    const bool few = told.files() <= most_open_files;
    source = open_with(shared.reads && few ? nullptr : &told, tokens, config, open);
    if (shared.reads && !few) try_first_sample(*source, config);
  });
  if (shared.keeps) shared.keeps(tokens.bytes() + source->kept_bytes());
  return source;
}

}  // namespace trireme::io
