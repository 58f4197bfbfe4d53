// Recorder: where bytes, time and rounding errors of a step went, as metrics.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "comm/hosts.hpp"
#include "engine/run_outlook.hpp"
#include "train/recorder.hpp"
#include "train/slow_hosts.hpp"

namespace trireme::train {
namespace {

void set_if_known(io::Record& record, const char* key,
                  const std::optional<double>& value) {
  if (value) record.set(key, *value);
}

// {"group": {"collective": {"calls": n, "bytes": n, "seconds": x, ...}}}: rows of one
// group stand together.
io::Record communication(const std::vector<engine::TrafficRow>& rows) {
  io::Record all;
  for (auto row = rows.begin(); row != rows.end();) {
    const std::string& name = row->group;
    io::Record group;
    for (; row != rows.end() && row->group == name; ++row) {
      io::Record one;
      one.set("calls", row->traffic.calls).set("bytes", row->traffic.bytes);
      set_if_known(one, "seconds", row->times.seconds);
      set_if_known(one, "bus_bytes_per_second", row->times.bus_bytes_per_second);
      set_if_known(one, "exposed_seconds", row->times.exposed_seconds);
      group.set(std::string(name_of(row->kind)), one);
    }
    all.set(name, group);
  }
  return all;
}

// Seconds in which this rank waited for messages, if they are known of all.
std::optional<double> exposed_seconds(const std::vector<engine::TrafficRow>& rows) {
  double seconds = 0;
  for (const engine::TrafficRow& row : rows) {
    if (!row.times.exposed_seconds) return std::nullopt;
    seconds += *row.times.exposed_seconds;
  }
  return seconds;
}

void add_moved(io::Record& record, const config::ParallelSettings& parallel,
               const Moved& now, const Moved& before) {
  if (parallel.offload != optim::Offload::none)
    record.set("offload_bytes_to_host", now.state.to_host - before.state.to_host)
        .set("offload_bytes_to_device", now.state.to_device - before.state.to_device);
  if (optim::is_on_disk(parallel.offload))
    record.set("offload_bytes_to_disk", now.state.to_disk - before.state.to_disk)
        .set("offload_bytes_from_disk", now.state.from_disk - before.state.from_disk);
  if (parallel.offload_activations)
    record
        .set("activation_bytes_to_host",
             now.activations.to_host - before.activations.to_host)
        .set("activation_bytes_to_device",
             now.activations.to_device - before.activations.to_device);
}

// What all GPUs and all nodes have used, where all of them count.
io::Record energy_record(const engine::Joules& joules, double tokens) {
  io::Record record;
  const auto add = [&](const char* key, double used) {
    if (!std::isnan(used)) record.set(key, used / tokens);
  };
  add("device_joules_per_token", static_cast<double>(joules.gpus));
  add("node_joules_per_token", static_cast<double>(joules.nodes));
  return record;
}

// Tokens that chose each expert, by layer: {"1": [n, ...], ...}
io::Record expert_load(const model::ModelConfig& model, std::span<const double> load) {
  io::Record layers;
  const auto experts = static_cast<std::size_t>(model.moe.experts);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.is_moe(layer)) continue;
    const auto row = load.subspan(static_cast<std::size_t>(layer) * experts, experts);
    layers.set(std::to_string(layer), std::vector<double>(row.begin(), row.end()));
  }
  return layers;
}

// {"type": "e4m3", "bytes": n, "saturated": share, "flushed": share, "scale": s}
io::Record losses_record(DType type, const RoundingLosses& lost) {
  const double elements = std::max(lost.elements, 1.0);
  const double bytes = lost.elements * static_cast<double>(size_of(type));
  return io::Record()
      .set("type", std::string(name_of(type)))
      .set("bytes", static_cast<std::int64_t>(bytes))
      .set("saturated", lost.saturated / elements)
      .set("flushed", lost.flushed / elements)
      .set("scale", lost.scale);
}

// {"moment1": {...}, ...}: the classes of which something was rounded.
io::Record stored_record(const Recipe& recipe, std::span<const RoundingLosses> losses) {
  constexpr std::array<std::pair<TensorClass, const char*>, 6> names = {
      {{TensorClass::weight, "weight"},
       {TensorClass::gradient, "gradient"},
       {TensorClass::gradient_sum, "gradient_sum"},
       {TensorClass::moment1, "moment1"},
       {TensorClass::moment2, "moment2"},
       {TensorClass::gradient_traffic, "gradient_traffic"}}};
  io::Record all;
  for (const auto& [what, name] : names) {
    const RoundingLosses& lost = losses[static_cast<std::size_t>(what)];
    if (lost.elements > 0) all.set(name, losses_record(recipe[what].type, lost));
  }
  return all;
}

// {"x": {...}, "w": {...}, "dy": {...}}
io::Record fp8_record(const Recipe& recipe, std::span<const RoundingLosses> losses) {
  constexpr std::array<const char*, nn::Fp8Report::classes> names = {"x", "w", "dy"};
  io::Record all;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    const bool backward = i == static_cast<std::size_t>(nn::Operand::output_gradient);
    const auto what =
        backward ? TensorClass::backward_operand : TensorClass::forward_operand;
    all.set(names[i], losses_record(recipe[what].type, losses[i]));
  }
  return all;
}

}  // namespace

void Recorder::record_samples(const std::vector<TextSamples::Sample>& samples) {
  std::vector<io::Record> records;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const auto& [prompt, text] = samples[i];
    log::info("step {}  text {}  {} | {}", progress_.step, i + 1, one_line(prompt),
              one_line(text));
    records.push_back(io::Record().set("prompt", valid_utf8(prompt)).set("text", text));
    trackers_.write_text(progress_.step, format("samples/{}", i + 1),
                         "**" + one_line(prompt) + "** " + text);
  }
  if (metrics_)
    metrics_->write(io::metrics_line(
        "samples", io::Record().set("step", progress_.step).set("samples", records)));
}

// The largest load of an expert over the mean, the worst of the layers: 1 is even.
static double imbalance(const model::ModelConfig& model, std::span<const double> load) {
  const auto experts = static_cast<std::size_t>(model.moe.experts);
  double worst = 0;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    if (!model.is_moe(layer)) continue;
    const auto row = load.subspan(static_cast<std::size_t>(layer) * experts, experts);
    const double sum = std::accumulate(row.begin(), row.end(), 0.0);
    const double most = *std::max_element(row.begin(), row.end());
    if (sum > 0) worst = std::max(worst, most * static_cast<double>(experts) / sum);
  }
  return worst;
}

// What each class of memory has held at most since the start: {"weights": n, ...}
static io::Record memory_by_class() {
  io::Record all;
  for (int i = 0; i < memory_classes; ++i) {
    const auto kind = static_cast<MemoryClass>(i);
    const auto bytes = static_cast<std::int64_t>(memory_use(kind).peak_bytes);
    if (bytes > 0) all.set(std::string(name_of(kind)), bytes);
  }
  return all;
}

// Of this step, on rank 0.
io::Record Recorder::accounts() const {
  const optim::ParameterStore& store = engine_.store();
  io::Record record;
  const std::vector<engine::TrafficRow> traffic = engine::last_lap(meter_);
  record.set("communication", communication(traffic));
  set_if_known(record, "exposed_seconds", exposed_seconds(traffic));
  record.set("memory", memory_by_class());
  if (const auto& shares = engine_.totals().idle_shares(); !shares.empty()) {
    record.set("idle_share", shares);
    record.set("idle_share_mean", std::accumulate(shares.begin(), shares.end(), 0.0) /
                                      static_cast<double>(shares.size()));
  }
  if (const auto& slowest = engine_.totals().slowest())
    record.set("slowest_rank", std::int64_t{slowest->rank})
        .set("slowest_host", comm::hosts_of(world_).host(slowest->rank))
        .set("slowest_factor", slowest->value);
  if (const comm::HostTable& hosts = comm::hosts_of(world_); hosts.hosts() > 1) {
    std::vector<io::Record> slow;
    for (const SlowHosts::Slow& one : slowest_hosts(hosts, engine_.totals()))
      slow.push_back(io::Record()
                         .set("host", one.host)
                         .set("rank", std::int64_t{one.rank.rank})
                         .set("factor", one.rank.value));
    if (!slow.empty()) record.set("slowest_hosts", slow);
  }
  record.set("live_microbatches", of_all_steps_.live_microbatches);
  if (config_.parallel.sharding == optim::Sharding::weights)
    record.set("gathered_units", std::int64_t{store.peak_gathered()});
  add_moved(record, config_.parallel,
            {engine_.store().offload_traffic(), engine_.activation_traffic()}, moved_);
  if (mesh_.device().is_cuda()) {
    const DeviceMemoryState memory = device_memory_state(mesh_.device());
    record.set("device_memory_used_bytes",
               static_cast<std::int64_t>(memory.total_bytes - memory.free_bytes));
  }
  record.append(energy_record(agreed_.joules, tokens_of_step()));
  if (!engine_.reports().product_losses().empty())
    record.set("fp8",
               fp8_record(config_.precision.recipe, engine_.reports().product_losses()));
  if (!engine_.reports().stored_losses().empty())
    record.set("stored", stored_record(config_.precision.recipe,
                                       engine_.reports().stored_losses()));
  if (config_.model.has_experts()) {
    const nn::RouterLosses losses = engine_.expert_loads().losses();
    record.set("router_balance_loss", losses.balance).set("router_z_loss", losses.z);
    const std::span<const double> loads = engine_.expert_loads().loads();
    record.set("expert_load", expert_load(config_.model, loads))
        .set("expert_imbalance", imbalance(config_.model, loads));
  }
  if (config_.parallel.expert_memory > 0)
    record.set("expert_rounds_mean", agreed_.rounds.mean())
        .set("expert_rounds_max", agreed_.rounds.max);
  return record;
}

}  // namespace trireme::train
