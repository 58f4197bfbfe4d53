// Written codes: bit for bit those of the libraries that read them.
// SPDX-License-Identifier: Apache-2.0
#include "convert/code_writer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>

#include "convert/quantized_writer.hpp"
#include "io/element_convert.hpp"
#include "support/code_numbers.hpp"

namespace trireme::convert {
namespace {

struct Case {
  std::string way, type, kind;
  std::int64_t rows = 0, columns = 0;
  std::uint32_t seed = 0;

  DType dtype() const {
    if (type == "bf16") return DType::bf16;
    return type == "fp16" ? DType::f16 : DType::f32;
  }
  // As in tests/reference/make_written_codes.py.
  Buffer matrix() const {
    std::vector<float> numbers = test::code_numbers(rows * columns, seed);
    const float factor = kind == "large" ? 30000.0F : kind == "tiny" ? 0x1p-100F : 1.0F;
    for (float& number : numbers) number *= factor;
    for (std::size_t i = 0; kind == "steps" && i < numbers.size(); ++i)
      numbers[i] = static_cast<float>(37 * (i + seed) % 101) / 64 - 50.0F / 64;
    if (kind == "zeros")
      std::fill_n(numbers.begin(), std::min<std::size_t>(300, numbers.size()), 0.0F);
    Buffer out(Device::host(), dtype(), {rows, columns}, MemoryClass::data, "matrix");
    io::convert_elements(numbers.data(), DType::f32, out.view().raw(), dtype(),
                         rows * columns);
    return out;
  }
};

const std::string name = "model.layers.0.mlp.up_proj.weight";

// The tensors of one line: digests in the order of the line, then the state's text.
void expect_codes(const Case& line, std::istringstream& words) {
  const bool nested = line.way.ends_with("+");
  const auto to = quantize_to(line.way.substr(0, line.way.size() - (nested ? 1 : 0)));
  ASSERT_TRUE(to.has_value());
  const auto writer = code_writer({*to, nested});
  const Buffer matrix = line.matrix();
  const auto entries = writer->tensors(name, matrix.view().shape(), line.dtype());
  const auto made = writer->encode(name, matrix.view());
  ASSERT_EQ(entries.size(), made.size());
  std::string state;
  for (std::size_t i = 0; i < made.size(); ++i) {
    const auto* const bytes = made[i].view().raw();
    if (entries[i].name.ends_with(".weight_format")) continue;  // it has no bits of codes
    if (entries[i].name.find(".quant_state.") != std::string::npos) {
      state.assign(static_cast<const char*>(bytes), made[i].bytes());
      continue;
    }
    std::string digest;
    words >> digest;
    EXPECT_EQ(test::code_digest(bytes, made[i].bytes()), digest) << entries[i].name;
  }
  std::string rest;
  std::getline(words, rest);
  ASSERT_EQ(rest.empty(), state.empty());
  if (state.empty()) return;
  EXPECT_EQ(io::Json::parse(state), io::Json::parse(rest));
}

// written_codes.txt is made by tests/reference/make_written_codes.py.
TEST(CodeWriter, CodesAreThoseOfTheLibraries) {
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "CTest sets it";
  std::ifstream file(std::string(root) + "/tests/reference/written_codes.txt");
  int lines = 0;
  std::string text;
  while (std::getline(file, text)) {
    SCOPED_TRACE(text);
    std::istringstream words(text);
    Case line;
    words >> line.way >> line.type >> line.kind >> line.rows >> line.columns >> line.seed;
    expect_codes(line, words);
    ++lines;
  }
  EXPECT_EQ(lines, 291);
}

TEST(CodeWriter, NumbersThatAreNoneAreRefused) {
  for (const auto to : {QuantizeTo::nf4, QuantizeTo::fp4, QuantizeTo::int8,
                        QuantizeTo::fp8, QuantizeTo::fp8_blocks, QuantizeTo::int4}) {
    SCOPED_TRACE(name_of(to));
    const Buffer matrix(Device::host(), DType::f32, {2, 128}, MemoryClass::data, "x");
    for (const float bad : {std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()}) {
      std::fill_n(matrix.view().data<float>(), 256, 1.0F);
      matrix.view().data<float>()[200] = bad;
      try {
        code_writer({to})->encode(name, matrix.view());
        FAIL() << "it was written";
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::bad_content);
        EXPECT_NE(std::string(error.what()).find(name), std::string::npos);
        EXPECT_NE(std::string(error.what()).find("in row 1"), std::string::npos);
      }
    }
  }
}

TEST(CodeWriter, OnlyBlocksThatAreCutShortAreCautioned) {
  const auto writer = code_writer({QuantizeTo::fp8_blocks});
  for (const Shape& shape : {Shape{24, 40}, {128, 256}, {512, 100}})
    EXPECT_EQ(writer->caution(shape), "") << shape[0];
  for (const Shape& shape : {Shape{576, 512}, {128, 300}})
    EXPECT_NE(writer->caution(shape), "") << shape[0];
}

// What a class of transformers keeps in linear layers, and what not.
TEST(WrittenAs, LinearLayersOfBlocksAndExperts) {
  const auto as = [](const char* tensor, const FolderPlace& place = {}) {
    return written_as({tensor, {8, 8}, true}, place);
  };
  for (const char* tensor :
       {"model.layers.0.mlp.up_proj.weight", "transformer.h.1.attn.c_attn.weight",
        "model.layers.1.mlp.shared_experts.down_proj.weight"})
    EXPECT_EQ(as(tensor), Written::codes) << tensor;
  for (const char* tensor : {"model.layers.0.block_sparse_moe.experts.3.w1.weight",
                             "model.layers.1.mlp.experts.12.down_proj.weight"})
    EXPECT_EQ(as(tensor), Written::expert) << tensor;
  for (const char* tensor :
       {"lm_head.weight", "embed_out.weight",
        "model.layers.0.block_sparse_moe.gate.weight", "model.layers.0.mlp.router.weight",
        "model.layers.1.mlp.shared_expert_gate.weight"})
    EXPECT_EQ(as(tensor), Written::linear) << tensor;
  for (const char* tensor :
       {"model.embed_tokens.weight", "model.layers.0.mlp.up_proj.bias"})
    EXPECT_EQ(as(tensor), Written::numbers) << tensor;
  FolderPlace stacked;
  stacked.expert = 3;
  EXPECT_EQ(as("model.layers.0.mlp.experts.3.up_proj.weight", stacked), Written::stacked);
}

TEST(QuantizeTo, NamesAreReadAsTheyAreWritten) {
  EXPECT_EQ(ways_to_quantize(), "nf4, fp4, int8, fp8, fp8-blocks and int4");
  for (const auto to : {QuantizeTo::nf4, QuantizeTo::fp4, QuantizeTo::int8,
                        QuantizeTo::fp8, QuantizeTo::fp8_blocks, QuantizeTo::int4})
    EXPECT_EQ(quantize_to(name_of(to)), to);
  EXPECT_FALSE(quantize_to("none").has_value());
  EXPECT_EQ(code_writer({QuantizeTo::none}), nullptr);
}

}  // namespace
}  // namespace trireme::convert
