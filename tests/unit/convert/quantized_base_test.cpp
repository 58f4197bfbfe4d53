// Codes of boxes are those of the whole matrix, and those that convert --quantize writes.
// SPDX-License-Identifier: Apache-2.0
#include "convert/quantized_base.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "convert/base_digest.hpp"
#include "convert/quantized_writer.hpp"
#include "support/coded_base.hpp"

namespace trireme::test {
namespace {

using model::BaseCodes;

const std::string path = "model/model.layers.3.mlp.up_proj.weight";

struct Numbers {
  Buffer memory;
  float at(std::int64_t i, std::int64_t j) const {
    return memory.view().data<float>()[i * memory.view().dim(1) + j];
  }
};

Numbers read(const io::TensorSource& source, const Shape& whole, const Shape& begin,
             const Shape& extent) {
  Numbers out{Buffer(Device::host(), DType::f32, extent, MemoryClass::data, "box")};
  source.read(path, whole, begin, out.memory.view());
  return out;
}

struct Box {
  Shape begin, extent;
};
// Of whole blocks, of parts of them, of one element, and all.
std::vector<Box> boxes_in(std::int64_t N, std::int64_t K) {
  return {{{0, 0}, {N, K}},
          {{1, 0}, {N - 1, K}},
          {{N / 2, K / 3}, {2, K / 2}},
          {{N - 1, K - 1}, {1, 1}},
          {{0, K / 2}, {N, K - K / 2}},
          {{2, 1}, {3, K - 2}}};
}

TEST(QuantizedBase, BoxesHaveTheCodesOfTheWholeMatrix) {
  for (const BaseCodes kind : {BaseCodes::nf4, BaseCodes::int8, BaseCodes::fp8})
    for (const DType type : {DType::f32, DType::bf16})
      for (const std::int64_t K : {5, 37, 48, 64, 129}) {
        constexpr std::int64_t N = 11;
        const auto base = coded_base(kind, type);
        const Numbers whole = read(*base, {N, K}, {0, 0}, {N, K});
        for (const auto& [begin, extent] : boxes_in(N, K)) {
          SCOPED_TRACE(
              format("{} {} K={} {} {}", name_of(kind), name_of(type), K, begin, extent));
          const Numbers box = read(*base, {N, K}, begin, extent);
          for (std::int64_t i = 0; i < extent[0]; ++i)
            for (std::int64_t j = 0; j < extent[1]; ++j)
              ASSERT_EQ(box.at(i, j), whole.at(begin[0] + i, begin[1] + j));
          const OwnedCodes codes = base->read_codes(path, {N, K}, begin, extent);
          EXPECT_EQ(codes.matrix.bytes(), base->code_bytes(path, {N, K}, begin, extent));
        }
      }
}

// The tensors of a folder, and the codes in memory.
TEST(QuantizedBase, CodesAreThoseThatConvertWrites) {
  constexpr std::int64_t N = 6, K = 96;
  const NumbersByPlace source;
  for (const DType type : {DType::f32, DType::bf16}) {
    const Buffer matrix(Device::host(), type, {N, K}, MemoryClass::data, "matrix");
    source.read(path, {N, K}, {0, 0}, matrix.view());
    for (const auto& [kind, to] : {std::pair{BaseCodes::nf4, convert::QuantizeTo::nf4},
                                   {BaseCodes::int8, convert::QuantizeTo::int8},
                                   {BaseCodes::fp8, convert::QuantizeTo::fp8}}) {
      SCOPED_TRACE(format("{} {}", name_of(kind), name_of(type)));
      const auto written = convert::code_writer({to})->encode(path, matrix.view());
      const OwnedCodes made =
          coded_base(kind, type)->read_codes(path, {N, K}, {0, 0}, {N, K});
      ASSERT_EQ(written[0].bytes(), made.codes.bytes());
      EXPECT_EQ(std::memcmp(written[0].view().raw(), made.codes.view().raw(),
                            made.codes.bytes()),
                0);
      const Buffer scales(Device::host(), DType::f32, made.scales.view().shape(),
                          MemoryClass::data, "scales");
      Stream stream;
      kernels::copy(stream, written[1].view().reshape(made.scales.view().shape()),
                    scales.view());
      EXPECT_EQ(
          std::memcmp(scales.view().raw(), made.scales.view().raw(), scales.bytes()), 0);
    }
  }
}

TEST(QuantizedBase, OtherTensorsAreNumbers) {
  for (const char* name :
       {"model.layers.0.self_attn.q_proj.lora_A.weight", "model.embed_tokens.weight",
        "lm_head.weight", "model.layers.0.mlp.gate.weight",
        "model.layers.1.mlp.shared_expert_gate.weight",
        "model.layers.2.linear_attn.conv1d.weight"})
    EXPECT_FALSE(model::becomes_codes(name, {8, 8})) << name;
  EXPECT_FALSE(model::becomes_codes("model.layers.0.input_layernorm.weight", {8}));
  for (const char* name :
       {"model.layers.0.mlp.gate_proj.weight", "transformer.h.1.attn.c_attn.weight",
        "model.layers.0.block_sparse_moe.experts.3.w1.weight"})
    EXPECT_TRUE(model::becomes_codes(name, {8, 8})) << name;
}

// However many ranks share it, and whatever byte is another one.
TEST(BaseDigest, IsOfEveryByteOnAnyNumberOfRanks) {
  namespace fs = std::filesystem;
  const char* const root = std::getenv("TRIREME_SOURCE");
  ASSERT_NE(root, nullptr) << "run this test by ctest";
  std::string name = fs::temp_directory_path() / "trireme-base-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  const fs::path folder = fs::path(name) / "llama";
  fs::copy(fs::path(root) / "tests/reference/folders/llama", folder,
           fs::copy_options::recursive);
  const auto digest = [&](int ranks) {
    std::vector<std::string> shares;
    for (int rank = 0; rank < ranks; ++rank)
      shares.push_back(convert::share_of_base_digest(folder, rank, ranks));
    return convert::join_base_digest(BaseCodes::int8, shares);
  };
  const std::string whole = digest(1);
  for (const int ranks : {2, 3, 32, 40}) EXPECT_EQ(digest(ranks), whole) << ranks;
  const auto check = [&](int rank, int ranks) {
    try {
      convert::check_base_digest("CK", whole, folder, BaseCodes::int8, rank, ranks);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::bad_content);
      return 1;
    }
    return 0;
  };
  EXPECT_EQ(check(0, 1), 0);
  // The last byte of the file is one of a tensor.
  const fs::path weights = folder / "model.safetensors";
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const int last = file.get();
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
  file.close();
  EXPECT_NE(digest(1), whole);
  int found = 0;
  for (int rank = 0; rank < 3; ++rank) found += check(rank, 3);
  EXPECT_EQ(found, 1) << "one rank has the tensor";
  fs::remove_all(name);
}

}  // namespace
}  // namespace trireme::test
