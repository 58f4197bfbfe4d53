// open_source(): the kinds of data by name.
// SPDX-License-Identifier: Apache-2.0
#include "io/sample_source.hpp"

#include "base/error.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {

namespace {

std::unique_ptr<SampleSource> open_kind(const SourceConfig& config,
                                        const OpenSource& open_text) {
  switch (config.kind) {
    case SourceKind::bytes: return open_bytes(config);
    case SourceKind::tokens: return open_tokens(config);
    case SourceKind::megatron: return open_megatron(config);
    case SourceKind::llmc: return open_llmc(config);
    case SourceKind::synthetic: return open_synthetic(config);
    case SourceKind::text:
    case SourceKind::chat:
    case SourceKind::preference:
      require(open_text != nullptr, "text was opened without a tokenizer's module");
      return open_text(config);
    case SourceKind::blend:
      return open_blend(
          config, [&](const SourceConfig& part) { return open_kind(part, open_text); });
  }
  fail(Status::internal, "no source of data is of this kind");
}

}  // namespace

std::string_view name_of(SourceKind kind) {
  switch (kind) {
    case SourceKind::bytes: return "bytes";
    case SourceKind::tokens: return "tokens";
    case SourceKind::megatron: return "megatron";
    case SourceKind::llmc: return "llmc";
    case SourceKind::text: return "text";
    case SourceKind::chat: return "chat";
    case SourceKind::preference: return "preference";
    case SourceKind::blend: return "blend";
    case SourceKind::synthetic: return "synthetic";
  }
  return "";
}

std::unique_ptr<SampleSource> open_source(const SourceConfig& config,
                                          const OpenSource& open_text) try {
  return open_kind(config, open_text);
} catch (const NamedError&) {
  throw;
} catch (const Error& error) {
  if (config.named_by.empty()) throw;
  throw Error(error.status(), config.named_by + ": " + error.what(), error.where());
}

}  // namespace trireme::io
