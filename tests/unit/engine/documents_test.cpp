// Where documents end in samples, and what is said where nothing tells it.
// SPDX-License-Identifier: Apache-2.0
#include "engine/documents.hpp"

#include <gtest/gtest.h>

namespace trireme::engine {
namespace {

TEST(DocumentRule, NamesTheKeyWhereNothingSaysHowDocumentsEnd) {
  io::SourceConfig config;
  config.kind = io::SourceKind::synthetic;  // which has none
  config.sequence = 4;
  config.vocabulary = 10;
  config.packing = io::Packing::concatenate;
  config.names.packing = "a.toml:7:8: data.packing";
  const auto source = io::open_source(config);
  try {
    document_rule(config, *source, 0);
    ADD_FAILURE() << "there was a rule";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what())
                    .starts_with("a.toml:7:8: data.packing: the data do not say"))
        << error.what();
  }
  config.end_token = 3;
  EXPECT_EQ(document_rule(config, *source, 0)->end_token, 3);
}

}  // namespace
}  // namespace trireme::engine
