// The table of a machine file, and reading and writing by it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/machine.hpp"

#include <array>
#include <cmath>
#include <filesystem>

#include "base/format.hpp"
#include "io/deck.hpp"
#include "io/deck_toml.hpp"

namespace trireme::plan {
namespace {

using io::DeckKey, io::Key, io::KeyType;

constexpr double tera = 1e12, giga = 1e9, micro = 1e-6, milli = 1e-3;

// A number of the file, the field that it fills, and what one of its units is.
struct Number {
  Key<double> key;
  double& (*field)(Machine&);
  double unit;
};

constexpr Key<double> number(std::string_view section, std::string_view name,
                             std::string_view unit, std::string_view fallback, double low,
                             double high, std::string_view doc) {
  return {{section, name, KeyType::real, unit, fallback, low, high, "", doc}};
}

constexpr Key<std::string> name_key{
    {"machine", "name", KeyType::text, "", "", 0, 0, "", "What the machine is called."}};
constexpr Key<std::string> source_key{{"machine", "source", KeyType::text, "", "", 0, 0,
                                       "measured|data sheet",
                                       "Where the numbers come from: trireme bench "
                                       "--machine, or data sheets and guesses."}};
constexpr Key<bool> gpus_key{{"machine", "gpus", KeyType::boolean, "", "false", 0, 0, "",
                              "Whether a rank computes on a GPU."}};
constexpr Key<std::int64_t> ranks_key{{"machine", "ranks_per_node", KeyType::integer,
                                       "ranks", "", 1, 1024, "",
                                       "Ranks that share a node."}};

using M = Machine;

constexpr auto numbers = std::to_array<Number>({
    {number("machine", "memory", "GB", "", 0.1, 10000,
            "Memory of a rank: of its GPU, or its share of the node's."),
     [](M& m) -> double& { return m.memory_bytes; }, giga},
    {number("machine", "host_memory", "GB", "0.0", 0, 10000,
            "Where ranks have GPUs: a rank's share of the node's memory; 0: not known."),
     [](M& m) -> double& { return m.host_memory_bytes; }, giga},
    {number("products", "fp64", "TFLOP/s", "0.0", 0, 10000,
            "Rate of large products in fp64; 0: not known."),
     [](M& m) -> double& { return m.products.fp64; }, tera},
    {number("products", "fp32", "TFLOP/s", "0.0", 0, 10000, "The same in fp32."),
     [](M& m) -> double& { return m.products.fp32; }, tera},
    {number("products", "bf16", "TFLOP/s", "0.0", 0, 10000, "The same in bf16."),
     [](M& m) -> double& { return m.products.bf16; }, tera},
    {number("products", "fp16", "TFLOP/s", "0.0", 0, 10000, "The same in fp16."),
     [](M& m) -> double& { return m.products.fp16; }, tera},
    {number("products", "fp8", "TFLOP/s", "0.0", 0, 20000, "The same in FP8."),
     [](M& m) -> double& { return m.products.fp8; }, tera},
    {number(
         "products", "reached", "", "1.0", 0.01, 1,
         "Share of these rates that large products reach; 1 where they were measured."),
     [](M& m) -> double& { return m.products.reached; }, 1},
    {number("products", "half_inner", "", "32.0", 0, 10000,
            "Inner extent of a product that reaches half of the rate."),
     [](M& m) -> double& { return m.products.half_inner; }, 1},
    {number("products", "half_side", "", "32.0", 0, 10000,
            "The smaller of rows and columns that reaches half of the rate."),
     [](M& m) -> double& { return m.products.half_side; }, 1},
    {number("attention", "forward", "", "", 0.001, 2,
            "Rate of attention, as a share of that of products."),
     [](M& m) -> double& { return m.attention_forward; }, 1},
    {number("attention", "backward", "", "", 0.001, 2, "The same of its backward."),
     [](M& m) -> double& { return m.attention_backward; }, 1},
    {number("attention", "half_width", "", "0.0", 0, 1000,
            "Head width at which attention reaches half of its rate."),
     [](M& m) -> double& { return m.attention_half_width; }, 1},
    {number("memory", "sweeps", "GB/s", "", 0.1, 100000,
            "Bytes that norms, activations and other kernels read and write."),
     [](M& m) -> double& { return m.sweep_rate; }, giga},
    {number("memory", "sweeps_16", "GB/s", "0.0", 0, 100000,
            "The same where tensors have 16 bits; 0: as many."),
     [](M& m) -> double& { return m.narrow_sweep_rate; }, giga},
    {number("memory", "updates", "GB/s", "0.0", 0, 100000,
            "The same of an optimizer's update; 0: as many as sweeps."),
     [](M& m) -> double& { return m.update_rate; }, giga},
    {number("memory", "host", "GB/s", "20.0", 0.1, 100000,
            "Where ranks have GPUs: bytes that an update on the host reads and writes, a "
            "rank's share."),
     [](M& m) -> double& { return m.host_sweep_rate; }, giga},
    {number("launch", "kernel", "us", "", 0, 1000,
            "A kernel that does nothing: the least that any takes."),
     [](M& m) -> double& { return m.kernel_seconds; }, micro},
    {number("launch", "step", "ms", "0.0", 0, 10000,
            "A step, beside its kernels and messages."),
     [](M& m) -> double& { return m.step_seconds; }, milli},
    {number("links", "node", "GB/s", "", 0.001, 10000,
            "Bytes that a rank sends to ranks of its node in a collective."),
     [](M& m) -> double& { return m.links.node_rate; }, giga},
    {number("links", "node_latency", "us", "", 0, 100000,
            "A short message within a node."),
     [](M& m) -> double& { return m.links.node_latency; }, micro},
    {number("links", "network", "GB/s", "", 0.001, 10000,
            "A rank's share of its node's network cards."),
     [](M& m) -> double& { return m.links.network_rate; }, giga},
    {number("links", "network_latency", "us", "", 0, 100000,
            "A short message between nodes."),
     [](M& m) -> double& { return m.links.network_latency; }, micro},
    {number("links", "overlap", "", "", 0, 1,
            "Share of a message's time that passes while kernels run."),
     [](M& m) -> double& { return m.links.overlap; }, 1},
    {number("links", "host", "GB/s", "20.0", 0.1, 10000,
            "Bytes between a GPU and its host's memory."),
     [](M& m) -> double& { return m.links.host_rate; }, giga},
    {number("files", "write", "GB/s", "", 0.001, 10000,
            "Bytes that a node writes to the file system of checkpoints."),
     [](M& m) -> double& { return m.write_rate; }, giga},
    {number("files", "read", "GB/s", "", 0.001, 10000, "Bytes that a node reads there."),
     [](M& m) -> double& { return m.read_rate; }, giga},
    {number("failures", "rank_hours", "hours", "50000.0", 1, 1e9,
            "Mean time between failures of one rank. 50000 is what 16,384 GPUs of a "
            "published run had (Grattafiori et al., 2024)."),
     [](M& m) -> double& { return m.failure_hours; }, 1},
    {number("failures", "restart", "s", "300.0", 0, 100000,
            "From a failure to the first step after it, without reading."),
     [](M& m) -> double& { return m.restart_seconds; }, 1},
});

Machine machine_of(const io::Deck& deck) {
  Machine machine;
  machine.name = deck[name_key];
  machine.source = deck[source_key];
  machine.gpus = deck[gpus_key];
  machine.ranks_per_node = deck[ranks_key];
  for (const Number& row : numbers) row.field(machine) = deck[row.key] * row.unit;
  return machine;
}

}  // namespace

double Machine::product_rate(DType type) const {
  double rate = products.fp8;
  if (type == DType::f64) rate = products.fp64;
  if (type == DType::f32) rate = products.fp32;
  if (type == DType::bf16) rate = products.bf16;
  if (type == DType::f16) rate = products.fp16;
  require(rate > 0, Status::resources,
          "the machine file of '{}' has no rate of products in {}: give it in [products]",
          name, name_of(type));
  return rate;
}

std::span<const io::DeckKey> machine_table() {
  static const std::vector<DeckKey> table = [] {
    std::vector<DeckKey> all = {name_key, source_key, gpus_key, ranks_key};
    for (const Number& row : numbers) all.push_back(row.key);
    return all;
  }();
  return table;
}

Machine read_machine(const std::string& path) {
  std::error_code ignored;
  require(std::filesystem::status(path, ignored).type() !=
              std::filesystem::file_type::not_found,
          Status::missing_input, "{}: there is no such machine file", path);
  return machine_of(io::Deck::load(path, {}, machine_table()));
}

Machine parse_machine(const std::string& text, const std::string& name) {
  return machine_of(io::Deck::parse(text, name, {}, machine_table()));
}

Machine nominal_machine(bool gpus) {
  Machine m;
  m.name = "a nominal machine";
  m.source = "data sheet";
  m.gpus = gpus;
  m.ranks_per_node = 8;
  m.failure_hours = 50000;
  m.restart_seconds = 300;
  m.write_rate = m.read_rate = giga;
  if (gpus) {
    m.products = {30 * tera, 60 * tera, 700 * tera, 700 * tera, 1400 * tera, 1, 64, 256};
    m.attention_forward = 0.6, m.attention_backward = 0.45;
    m.sweep_rate = 2800 * giga, m.kernel_seconds = 3 * micro;
    m.links = {400 * giga, 10 * micro, 45 * giga, 20 * micro, 0.9};
  } else {
    m.products = {0.05 * tera, 0.1 * tera, 0.2 * tera, 0.1 * tera, 0.1 * tera, 1, 4, 4};
    m.attention_forward = m.attention_backward = 1;
    m.sweep_rate = 20 * giga, m.kernel_seconds = micro;
    m.links = {5 * giga, 5 * micro, giga, 20 * micro, 0};
  }
  return m;
}

std::string machine_text(const Machine& machine) {
  Machine copy = machine;
  std::string text =
      format("[machine]\nname = {}\nsource = {}\ngpus = {}\nranks_per_node = {}\n",
             io::quote_toml(machine.name), io::quote_toml(machine.source),
             machine.gpus ? "true" : "false", machine.ranks_per_node);
  std::string_view section = "machine";
  for (const Number& row : numbers) {
    if (row.key.section != section) text += format("\n[{}]\n", row.key.section);
    section = row.key.section;
    // Four digits: more than any measurement has.
    const double value = row.field(copy) / row.unit;
    const double scale =
        value == 0 ? 1 : std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
    text += format("{} = {}  # {}{}\n", row.key.name,
                   io::toml_real(std::round(value * scale) / scale),
                   row.key.unit.empty() ? "" : format("{}: ", row.key.unit), row.key.doc);
  }
  return text;
}

}  // namespace trireme::plan
