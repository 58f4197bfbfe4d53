// A packed row gives the logits of each document run alone, on context ranks and stages.
// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "engine/documents.hpp"
#include "io/host_copy.hpp"
#include "ranks/equality.hpp"

namespace trireme::test {
namespace {

constexpr std::int32_t end_token = 3;
constexpr std::int64_t S = 24;

// A sample of S + 1 tokens with documents of 1 to 9 tokens, the last one cut off.
std::vector<std::int32_t> packed_sample() {
  std::vector<std::int32_t> tokens;
  for (const std::size_t length : {5, 1, 9, 2, 20})
    for (std::size_t i = 0; i < length; ++i)
      tokens.push_back(i + 1 == length
                           ? end_token
                           : static_cast<std::int32_t>(4 + (tokens.size() * 7 + i) % 12));
  tokens.resize(S + 1);
  return tokens;
}

// An engine on a mesh, and the rows that this rank holds of one sequence.
class Row {
 public:
  Row(const config::RunConfig& config, comm::Mesh& mesh)
      : config_(config), engine_(config_, mesh, mesh.device()) {
    engine_.store().initialize(42);
    const auto P = static_cast<std::int64_t>(engine_.positions().size());
    ids_ = Buffer(Device::host(), DType::i32, {5, P}, MemoryClass::data, "ids");
  }
  // Logits by position in the whole sequence; none but on the last stage.
  std::map<std::int64_t, std::vector<double>> logits(
      const std::vector<std::int32_t>& tokens, const std::vector<std::int64_t>& starts) {
    const auto view = [&](std::int64_t i) {
      return ids_.view().rows(i, 1).reshape({ids_.view().dim(1)});
    };
    const nn::Documents all{view(2), view(3), view(4)};
    const auto& positions = engine_.positions();
    for (std::size_t i = 0; i < positions.size(); ++i) {
      view(0).span<std::int32_t>()[i] = tokens[static_cast<std::size_t>(positions[i])];
      view(1).span<std::int32_t>()[i] = 1;
      if (!starts.empty())
        engine::put_document(all, i, positions[i], starts, config_.model.window);
    }
    std::map<std::int64_t, std::vector<double>> out;
    const auto each = [&](std::int64_t first, const TensorView& logits_CV) {
      io::HostCopy host;
      const TensorView on_host_CV = host.read(logits_CV);
      const std::int64_t V = on_host_CV.dim(1);
      for (std::int64_t c = 0; c < on_host_CV.dim(0); ++c) {
        const double* from = on_host_CV.data<double>() + c * on_host_CV.stride(0);
        out[positions[static_cast<std::size_t>(first + c)]].assign(from, from + V);
      }
    };
    engine_.evaluate(view(0), view(1), each, starts.empty() ? nn::Documents{} : all);
    return out;
  }

 private:
  config::RunConfig config_;
  engine::Engine engine_;
  Buffer ids_;
};

config::RunConfig config_of(const std::string& model, const Words& words) {
  auto config = equality_config(model, "fp64", Words{"model.layers=7"} + words);
  config.batch.micro = 1;
  return config;
}

// By position: the logits of each document in a row of its own, on one rank.
std::map<std::int64_t, std::vector<double>> logits_alone(
    const std::string& model, const std::vector<std::int32_t>& tokens,
    const std::vector<std::int64_t>& starts) {
  config::RunConfig config = config_of(model, {});
  config.parallel = {};
  comm::Mesh alone = comm::Mesh::meta({}, 0);
  Row row(config, alone);
  std::map<std::int64_t, std::vector<double>> out;
  for (std::int64_t begin = 0; begin < S;) {
    std::int64_t end = begin;
    while (end < S && starts[static_cast<std::size_t>(end)] == begin) ++end;
    std::vector<std::int32_t> own(tokens.begin() + begin, tokens.begin() + end);
    own.resize(S + 1);  // what follows is not seen
    auto logits = row.logits(own, {});
    for (std::int64_t p = begin; p < end; ++p) out[p] = logits.at(p - begin);
    begin = end;
  }
  return out;
}

TEST(Packing, DocumentsAreAsRunAlone) {
  const std::string n = std::to_string(world().size());
  const std::vector<Words> meshes = {
      {"parallel.context=" + n},
      {"parallel.context=" + n, "parallel.context_order=contiguous"},
      {"parallel.context=" + n, "parallel.context_method=ulysses"},
      {"parallel.pipeline=" + n}};
  const auto tokens = packed_sample();
  const auto starts = engine::document_starts(tokens, end_token);
  for (const char* model : {"llama", "window", "gpt2"}) {
    const auto alone = logits_alone(model, tokens, starts);
    ASSERT_EQ(alone.size(), static_cast<std::size_t>(S));
    for (const Words& words : meshes) {
      SCOPED_TRACE(std::string(model) + " " + words.back());
      auto config = config_of(model, words);
      config.data.packing = io::Packing::concatenate;
      comm::Mesh mesh = test_mesh(config);
      Row row(config, mesh);
      const auto packed = row.logits(tokens, starts);
      for (const auto& [position, logits] : packed) {
        const auto& wanted = alone.at(position);
        ASSERT_EQ(logits.size(), wanted.size());
        for (std::size_t v = 0; v < logits.size(); ++v)
          ASSERT_NEAR(logits[v], wanted[v], 1e-12 * (1 + std::abs(wanted[v])))
              << position;
      }
      // Every position is on some rank.
      const double held = world().sum(static_cast<double>(packed.size()));
      EXPECT_EQ(held, static_cast<double>(S));
      // As one text the same row is another one.
      config.data.packing = io::Packing::none;
      const auto as_one = Row(config, mesh).logits(tokens, {});
      if (as_one.contains(S - 1)) {
        EXPECT_GT(relative(as_one.at(S - 1), alone.at(S - 1)), 1e-6);
      }
    }
  }
}

TEST(Packing, DocumentsBeginBehindEndTokens) {
  const std::vector<std::int32_t> tokens = {5, 3, 3, 6, 7, 3, 8};
  EXPECT_EQ(engine::document_starts(tokens, 3),
            (std::vector<std::int64_t>{0, 0, 2, 3, 3, 3, 6}));
}

}  // namespace
}  // namespace trireme::test
