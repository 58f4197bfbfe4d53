// What `quantization_config` of a config.json says.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "convert/quantization.hpp"

namespace trireme::convert {
namespace {

using Kind = Quantization::Kind;
using Scheme = Quantization::Scheme;

constexpr std::int64_t most_block = 1 << 20;
constexpr std::string_view key = "quantization_config", block_key = "weight_block_size";

std::int64_t block_extent(const ConfigFields& fields, std::string_view of,
                          const io::Json& extent) {
  const bool sound = extent.is_number_integer() && extent.get<std::int64_t>() >= 1 &&
                     extent.get<std::int64_t>() <= most_block;
  if (!sound) fields.refuse(of, "is no pair of extents of a block");
  return extent.get<std::int64_t>();
}

void read_block(const ConfigFields& fields, std::string_view of, std::int64_t& rows,
                std::int64_t& columns) {
  const io::Json& block = fields.value(of);
  if (!block.is_array() || block.size() != 2)
    fields.refuse(of, "is no pair of extents of a block");
  rows = block_extent(fields, of, block[0]);
  columns = block_extent(fields, of, block[1]);
}

void read_fp8(const ConfigFields& fields, Quantization& how) {
  if (fields.text("fmt", "e4m3") != "e4m3")
    fields.refuse("fmt", "is no type of codes that this program reads: it has \"e4m3\"");
  if (fields.has(block_key)) read_block(fields, block_key, how.rows, how.columns);
}

// One group's "weights".
Scheme read_scheme(const ConfigFields& fields) {
  using Strategy = Scheme::Strategy;
  Scheme scheme;
  scheme.bits = static_cast<int>(fields.integer("num_bits", 8, 1, 8));
  const std::string type = fields.text("type", "int");
  scheme.floating = type == "float";
  if (!scheme.floating && type != "int")
    fields.refuse("type", "is no type of codes: it is \"int\" or \"float\"");
  if (scheme.floating && scheme.bits != 8)
    fields.refuse("num_bits",
                  "is no floating type that this program reads: it has 8 bits (E4M3)");
  scheme.symmetric = fields.flag("symmetric", true);
  const bool grouped = fields.has("group_size");
  const std::string strategy = fields.text("strategy", grouped ? "group" : "tensor");
  if (strategy == "tensor") {
    scheme.strategy = Strategy::tensor;
  } else if (strategy == "channel") {
    scheme.strategy = Strategy::channel;
  } else if (strategy == "group") {
    scheme.strategy = Strategy::group;
    if (!grouped) fields.refuse("strategy", "needs a \"group_size\"");
    scheme.columns = fields.integer("group_size", 0, -1, most_block);
    if (scheme.columns == 0) fields.refuse("group_size", "is no number of inputs");
    if (scheme.columns < 0) {  // all inputs
      scheme.strategy = Strategy::channel;
      scheme.columns = 0;
    }
  } else if (strategy == "block") {
    scheme.strategy = Strategy::block;
    if (!fields.has("block_structure"))
      fields.refuse("strategy", "needs a \"block_structure\"");
    read_block(fields, "block_structure", scheme.rows, scheme.columns);
  } else {
    fields.refuse("strategy",
                  "is none that this program reads: it has \"tensor\", \"channel\", "
                  "\"group\" and \"block\"");
  }
  return scheme;
}

void read_compressed(const ConfigFields& fields, Quantization& how) {
  constexpr auto groups_key = "config_groups";
  if (!fields.has(groups_key)) fields.refuse("quant_method", "needs \"config_groups\"");
  if (fields.has("sparsity_config") && fields.value("sparsity_config").is_object() &&
      fields.object("sparsity_config").text("format", "dense") != "dense")
    fields.refuse("sparsity_config", "is sparse, which this program does not read");
  const ConfigFields groups = fields.object(groups_key);
  for (const auto& [name, group] : groups.json().items()) {
    const ConfigFields each = groups.object(name);
    if (each.has("weights")) how.schemes.push_back(read_scheme(each.object("weights")));
  }
  if (how.schemes.empty()) fields.refuse(groups_key, "has no group with \"weights\"");
}

// GPTQ and AWQ: bits, and inputs of a group.
void read_packed(const ConfigFields& fields, std::span<const std::int64_t> known,
                 Quantization& how) {
  const std::string_view of = fields.has("bits") ? "bits" : "w_bit";
  const std::int64_t bits = fields.integer(of, 4, 1, 8);
  if (std::find(known.begin(), known.end(), bits) == known.end())
    fields.refuse(of, "is a number of bits that this program does not read here");
  how.bits = static_cast<int>(bits);
  const std::string_view group = fields.has("group_size") ? "group_size" : "q_group_size";
  how.group = fields.integer(group, 128, -1, most_block);
  if (how.group == 0) fields.refuse(group, "is no number of inputs");
  if (how.group < 0) how.group = 0;
}

void read_gptq(const ConfigFields& fields, Quantization& how) {
  constexpr std::array<std::int64_t, 4> known = {2, 3, 4, 8};
  read_packed(fields, known, how);
  const std::string format = fields.text("checkpoint_format", "gptq");
  if (format != "gptq" && format != "gptq_v2")
    fields.refuse("checkpoint_format",
                  "is none that this program reads: it has \"gptq\" and \"gptq_v2\"");
  how.zeros_less_one = format == "gptq";
}

void read_awq(const ConfigFields& fields, Quantization& how) {
  constexpr std::array<std::int64_t, 1> known = {4};
  read_packed(fields, known, how);
  if (fields.text("version", "gemm") != "gemm" && fields.text("version", "") != "GEMM")
    fields.refuse("version", "is no layout that this program reads: it has \"gemm\"");
  if (!fields.flag("zero_point", true))
    fields.refuse("zero_point", "is false, which this program does not read");
}

}  // namespace

Quantization read_quantization(const ConfigFields& fields) {
  if (!fields.has(key)) return {};
  const ConfigFields inner = fields.object(key);
  const std::string method = inner.text("quant_method", "");
  Quantization how;
  if (method == "fp8") {
    how.kind = Kind::fp8;
    read_fp8(inner, how);
  } else if (method == "mxfp4") {
    how.kind = Kind::mxfp4;
  } else if (method == "bitsandbytes") {
    how.kind = Kind::bitsandbytes;
  } else if (method == "compressed-tensors") {
    how.kind = Kind::compressed;
    read_compressed(inner, how);
  } else if (method == "gptq") {
    how.kind = Kind::gptq;
    read_gptq(inner, how);
  } else if (method == "awq") {
    how.kind = Kind::awq;
    read_awq(inner, how);
  } else {
    fields.refuse(key,
                  "says that weights are quantized in a way that this program cannot "
                  "read: it has quant_method \"fp8\", \"mxfp4\", \"bitsandbytes\", "
                  "\"compressed-tensors\", \"gptq\" and \"awq\"");
  }
  return how;
}

}  // namespace trireme::convert
