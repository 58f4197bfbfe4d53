// open_source(): the kinds of data by name.
// SPDX-License-Identifier: Apache-2.0
#include "io/sample_source.hpp"

#include "base/error.hpp"
#include "io/source_stream.hpp"

namespace trireme::io {

namespace {

std::unique_ptr<SampleSource> open_kind(const SourceConfig& config) {
  if (config.kind == "bytes") return open_bytes(config);
  if (config.kind == "tokens") return open_tokens(config);
  if (config.kind == "synthetic") return open_synthetic(config);
  fail(Status::bad_content,
       "data.source = \"{}\" is not available; use bytes, tokens or synthetic",
       config.kind);
}

}  // namespace

std::unique_ptr<SampleSource> open_source(const SourceConfig& config) try {
  return open_kind(config);
} catch (const Error& error) {
  if (config.named_by.empty()) throw;
  throw Error(error.status(), config.named_by + ": " + error.what(), error.where());
}

}  // namespace trireme::io
