// A step's products, attention and sweeps over memory, each at its bound.
// SPDX-License-Identifier: Apache-2.0
// Counted in bf16 with gradients, moments and master weights in fp32. Left out: launches,
// waiting, the host, and what does not fit the tiles of a product.
#include "bench/roofline/step.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/error.hpp"

namespace trireme::bench {
namespace {

// The values of a deck's lines "key = value # comment", whatever their section. Only the
// bench decks are read so, which name each key once.
std::map<std::string, std::string> read_deck(const std::filesystem::path& path) {
  std::ifstream in(path);
  require(in.good(), Status::missing_input, "'{}' cannot be read", path.string());
  std::map<std::string, std::string> values;
  std::string text;
  while (std::getline(in, text)) {
    std::istringstream line(text.substr(0, text.find('#')));
    std::string key, equals, value;
    if (line >> key >> equals >> value && equals == "=") values.emplace(key, value);
  }
  return values;
}

StepModel model_of(const std::filesystem::path& path) {
  const auto values = read_deck(path);
  const auto number = [&](const char* key) {
    const auto found = values.find(key);
    require(found != values.end(), Status::bad_content, "'{}' has no key {}",
            path.string(), key);
    return std::stod(found->second);
  };
  StepModel m;
  m.deck = path.stem().string();
  const auto architecture = values.find("architecture");
  m.gated = architecture != values.end() && architecture->second == "\"llama\"";
  m.layers = number("layers");
  m.D = number("hidden");
  m.F = number("feed_forward");
  m.H = number("heads");
  m.G = values.contains("kv_heads") ? number("kv_heads") : m.H;
  m.V = number("vocabulary");
  m.tied = values.contains("tie_embeddings");
  return m;
}

// Bytes of a token in one block's sweeps, forward and backward, over rows of bf16.
double sweep_bytes(const StepModel& m) {
  const double attention_width = m.H * m.K(), kv_width = m.G * m.K();
  double bytes = 0;
  bytes += 4 * m.D;              // first norm: reads x, writes y
  bytes += 8 * m.D;              // sum and second norm: reads two rows, writes two
  bytes += 6 * m.D;              // sum at the block's end
  bytes += 2 * 8 * m.D;          // norms backward: dy, x and the stream's gradient; dx
  bytes += 4 * attention_width;  // delta of attention backward: reads do and o
  if (m.gated) {
    bytes += (6 + 10) * m.F;  // SwiGLU forward: two in, one out; backward: three, two
    bytes += 2 * 4 * (attention_width + kv_width);  // RoPE, forward and backward
  } else {
    bytes += 2 * 2 * m.F;  // GELU's inputs, which products write and read
  }
  return bytes;
}

}  // namespace

double StepModel::block_parameters() const {
  const double attention = D * (H + 2 * G) * K() + H * K() * D;
  return layers * (attention + (gated ? 3 : 2) * D * F);
}
double StepModel::parameters() const {
  return block_parameters() + (tied ? 1 : 2) * V * D + (gated ? 0 : S * D);
}

std::vector<StepModel> read_models(const std::filesystem::path& table,
                                   const std::filesystem::path& decks) {
  std::ifstream in(table);
  require(in.good(), Status::missing_input, "'{}' cannot be read", table.string());
  std::vector<StepModel> models;
  std::string text;
  while (std::getline(in, text)) {
    std::istringstream line(text.substr(0, text.find('#')));
    std::string deck;
    double sequence = 0, sequences = 0;
    if (!(line >> deck)) continue;
    require(static_cast<bool>(line >> sequence >> sequences), Status::bad_content,
            "'{}': write deck, sequence and sequences, not '{}'", table.string(), text);
    models.push_back(model_of(decks / (deck + ".toml")));
    models.back().S = sequence;
    models.back().B = sequences;
  }
  return models;
}

std::vector<StepPart> predict(const StepModel& m, const GpuRates& gpu,
                              const AttentionRates& attention) {
  const double product_rate = gpu.tensor_rate * gpu.product_share;
  const double memory_rate = gpu.memory_rate * gpu.memory_share;
  const double T = m.tokens();
  std::vector<StepPart> parts;
  parts.push_back(
      {"products of the blocks", 6 * m.block_parameters() * T / product_rate});
  // Scores of visible pairs, half of all; a product of them costs 2 K FLOP a pair: two
  // forward, five backward, or three for dq and four for dk and dv. The faster form
  // counts.
  const double pairs = m.layers * m.B * m.H * m.S * (m.S + 1) / 2;
  const double product = 2 * m.K() * pairs;
  parts.push_back({"attention forward, own", 2 * product / attention.forward});
  const double once = 5 * product / attention.once;
  const double twice = 3 * product / attention.queries + 4 * product / attention.keys;
  parts.push_back({once < twice ? "attention backward, own, one pass"
                                : "attention backward, own, two passes",
                   std::min(once, twice)});
  parts.push_back({"products of the head", 6 * m.V * m.D * T / product_rate});
  // bf16 logits are read for statistics and for the gradient, which is written over them.
  parts.push_back({"loss", (2 + 2 + 2) * m.V * T / memory_rate});
  parts.push_back(
      {"norms, activations, sums", m.layers * sweep_bytes(m) * T / memory_rate});
  // A gradient is cleared before the step; AdamW reads it, reads and writes weight and
  // two moments in fp32, and writes the weight in bf16; the norm reads the gradient.
  parts.push_back({"AdamW, gradient norm",
                   (4 + 4 + 8 + 8 + 8 + 2 + 4) * m.parameters() / memory_rate});
  return parts;
}

}  // namespace trireme::bench
