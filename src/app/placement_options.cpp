// Placement of weights: limits, and what is said of it.
// SPDX-License-Identifier: Apache-2.0
#include "app/placement_options.hpp"

#include <algorithm>
#include <limits>

#include "app/held_weights.hpp"
#include "base/device_memory.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/output.hpp"
#include "base/text_table.hpp"
#include "infer/tier_rates.hpp"
#include "launch/memory_limit.hpp"

namespace trireme::app {
namespace {

using infer::Placement;
using infer::Tier;
using infer::TierLimits;

constexpr double default_share = 0.9;  // of memory that is free
constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

std::int64_t share_of(std::int64_t free_bytes, std::int64_t besides) {
  const auto share =
      static_cast<std::int64_t>(default_share * static_cast<double>(free_bytes));
  return std::max<std::int64_t>(0, share - besides);
}

// What a limit leaves to weights beside what is there in any case: a small limit is on
// weights alone, and a larger one never leaves less than a smaller one.
std::int64_t rest_of(std::int64_t limit, std::int64_t besides) {
  return std::max(limit - besides, std::min(limit, besides));
}

std::string bytes_text(std::int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

// All that is known of where weights are to lie, the same on every rank.
class Planner {
 public:
  Planner(comm::World& world, const PlacementRequest& request, const OpenedModel& opened,
          comm::Mesh& mesh, Device device, const ModelUse& use, infer::Held held)
      : world_(world),
        request_(request),
        config_(opened.config),
        source_(*opened.tensors),
        mesh_(mesh),
        device_(device),
        use_(use),
        held_(held),
        region_(mesh.group(comm::Axis::tensor), false),
        stages_(static_cast<std::size_t>(mesh.group(comm::Axis::pipeline).size())),
        stage_(static_cast<std::size_t>(mesh.group(comm::Axis::pipeline).rank())) {}

  Placement plan() {
    const model::ModelConfig& model = config_.model;
    std::vector<infer::Piece> pieces;
    world_.agree([&] {
      check_limits();
      pieces = infer::pieces_of(model, config_.precision.compute, region_,
                                held_ == infer::Held::codes ? &source_ : nullptr);
    });
    for (infer::Piece& piece : pieces) {
      piece.bytes = agreed(piece.bytes);
      piece.buffer_bytes = agreed(piece.buffer_bytes);
      piece.code_bytes = agreed(piece.code_bytes);
    }
    find_limits();
    Placement placement;
    world_.agree([&] {
      const bool gpus = device_.is_cuda();
      if (request_.map) {
        placement =
            request_.map->place(std::move(pieces), stages_, gpus, model.row().names.head);
        check_map(placement);
        return;
      }
      const auto cut = infer::cut_stages(pieces, limits_, request_.strategy);
      placement = infer::place_by_limits(std::move(pieces), cut, limits_, gpus,
                                         request_.strategy);
    });
    return placement;
  }

  // The table, and the bound. Collective.
  std::string text(const Placement& placement) {
    double disk = 0, copy = 0;
    world_.agree([&] {
      disk = infer::disk_rate(placement, stage_, config_.model, config_.precision.compute,
                              region_, source_, held_ == infer::Held::codes);
      if (placement.stages[stage_].streams()) copy = infer::copy_rate(device_);
    });
    return rows(placement) + totals(placement) + bound(placement, disk, copy);
  }

 private:
  std::int64_t agreed(std::int64_t most) const {
    return world_.size() == 1
               ? most
               : static_cast<std::int64_t>(world_.max(static_cast<double>(most)));
  }

  void check_limits() const {
    for (const auto& [gpu, bytes] : request_.gpu_bytes) {
      require(device_.is_cuda(), Status::command_line,
              "--max-memory gpu{}: this run computes on CPUs: limit cpu, or choose "
              "--device cuda",
              gpu);
      require(gpu < static_cast<int>(stages_), Status::command_line,
              "--max-memory gpu{}: there are {} stages, whose GPUs are gpu0 to gpu{}",
              gpu, stages_, stages_ - 1);
    }
  }

  // Those of a stage are the least of its ranks'.
  void find_limits() {
    working_ = working_bytes();
    program_ = agreed(resident_bytes());
    TierLimits mine{unlimited, unlimited};
    if (request_.any) mine = limits_here();
    for (std::size_t s = 0; s < stages_; ++s) {
      const bool here = s == stage_;
      limits_.push_back({-agreed(here ? -mine.device : -unlimited),
                         -agreed(here ? -mine.host : -unlimited)});
    }
  }

  std::int64_t working_bytes() const {
    const auto stages = static_cast<int>(stages_), stage = static_cast<int>(stage_);
    std::int64_t bytes = 0;
    world_.agree([&] {
      const infer::LoadedModel meta(config_.model, config_.precision.compute,
                                    mesh_.group(comm::Axis::tensor), use_.positions,
                                    source_, Device::meta(), {stage, stages}, held_);
      bytes = use_.working_bytes(meta) +
              static_cast<std::int64_t>(meta.codes().working_bytes());
    });
    return agreed(bytes);
  }

  TierLimits limits_here() const {
    const int ranks = world_.ranks_on_node();
    std::int64_t host = 0;
    if (request_.host_bytes)
      host = rest_of(*request_.host_bytes / ranks,
                     program_ + (device_.is_cuda() ? 0 : working_));
    else
      host = share_of(launch::free_host_memory(ranks), device_.is_cuda() ? 0 : working_);
    if (!device_.is_cuda()) return {host, -1};
    const auto given = request_.gpu_bytes.find(static_cast<int>(stage_));
    if (given != request_.gpu_bytes.end())
      return {rest_of(given->second, working_), host};
    const auto free = static_cast<std::int64_t>(device_memory_state(device_).free_bytes);
    return {share_of(free, working_), host};
  }

  // A file may ask for more than --max-memory allows.
  void check_map(const Placement& placement) const {
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto& stage = placement.stages[s];
      const std::int64_t device =
          infer::bytes_in(placement, s, Tier::device) + stage.device_buffer_bytes;
      const std::int64_t host =
          infer::bytes_in(placement, s, Tier::host) + stage.host_buffer_bytes;
      const bool on_host = !device_.is_cuda();
      const bool device_given = on_host
                                    ? request_.host_bytes.has_value()
                                    : request_.gpu_bytes.contains(static_cast<int>(s));
      require(!device_given || device <= limits_[s].device, Status::resources,
              "--device-map puts {} on {}, stream buffers included, and "
              "--max-memory allows {}",
              bytes_text(device), device_name(s), bytes_text(limits_[s].device));
      require(on_host || !request_.host_bytes || host <= limits_[s].host,
              Status::resources,
              "--device-map puts {} of stage {} on cpu, stream buffers included, and "
              "--max-memory allows {} for each rank",
              bytes_text(host), s, bytes_text(limits_[s].host));
    }
  }

  std::string device_name(std::size_t stage) const {
    return device_.is_cuda() ? format("gpu{}", stage) : "cpu";
  }
  std::string name_of(Tier tier, std::size_t stage) const {
    if (tier == Tier::device) return device_name(stage);
    return tier == Tier::host ? "cpu" : "disk";
  }

  // Neighbours with one place share a row.
  std::string rows(const Placement& placement) const {
    std::int64_t all = 0, codes = 0;
    std::vector<TextRow> rows = {{"part", "place", "bytes"}};
    if (stages_ > 1) rows.front().insert(rows.front().begin() + 1, "stage");
    for (const auto& piece : placement.pieces) {
      all += piece.bytes;
      codes += piece.code_bytes;
    }
    for (std::size_t s = 0; s < stages_; ++s)
      for (std::size_t i = 0; i < placement.pieces.size();) {
        if (!infer::has_piece(placement, s, i)) {
          ++i;
          continue;
        }
        const std::size_t begin = i;
        const Tier tier = placement.stages[s].of_pieces[i];
        std::int64_t bytes = placement.pieces[i++].bytes;
        while (is_block(placement, begin) && is_block(placement, i) &&
               infer::has_piece(placement, s, i) &&
               placement.stages[s].of_pieces[i] == tier)
          bytes += placement.pieces[i++].bytes;
        rows.push_back(
            {name_of_range(placement, begin, i), name_of(tier, s), bytes_text(bytes)});
        if (stages_ > 1) rows.back().insert(rows.back().begin() + 1, std::to_string(s));
      }
    const int ranks = mesh_.group(comm::Axis::tensor).size();
    return format("weights in {}: {}{}{}\n", trireme::name_of(config_.precision.compute),
                  bytes_text(all),
                  codes > 0 ? format(", of which {} are codes", bytes_text(codes)) : "",
                  ranks > 1 ? format(" on each of {} tensor ranks", ranks) : "") +
           text_table(rows, stages_ > 1 ? 3 : 2, 2);
  }
  static bool is_block(const Placement& placement, std::size_t i) {
    return i < placement.pieces.size() && placement.pieces[i].layer >= 0 &&
           placement.pieces[i].layer < placement.pieces.back().layer;
  }
  static std::string name_of_range(const Placement& placement, std::size_t begin,
                                   std::size_t end) {
    const auto& first = placement.pieces[begin];
    if (end - begin == 1)
      return first.name + (first.in_head_too ? " (tied with the head)" : "");
    return format("blocks {} to {}", first.layer, placement.pieces[end - 1].layer);
  }

  std::string totals(const Placement& placement) const {
    std::vector<TextRow> rows = {{"place", "weights", "stream buffers", "most"}};
    std::string over;
    const auto add = [&](std::size_t s, Tier tier, std::int64_t buffers,
                         std::int64_t limit) {
      const std::int64_t bytes = infer::bytes_in(placement, s, tier);
      if (bytes == 0 && buffers == 0) return;
      const bool has_limit = tier != Tier::disk && limit >= 0 && limit < unlimited;
      const std::string where =
          name_of(tier, s) + (stages_ > 1 && !(device_.is_cuda() && tier == Tier::device)
                                  ? format(", stage {}", s)
                                  : "");
      rows.push_back({where, bytes_text(bytes), buffers > 0 ? bytes_text(buffers) : "",
                      has_limit ? bytes_text(limit) : ""});
      if (has_limit && bytes + buffers > limit)
        over += format(
            "  {}: the two buffers that weights are streamed through take {}, more than "
            "--max-memory allows here: no weights stay there, and the limit is "
            "exceeded\n",
            where, bytes_text(buffers));
    };
    for (std::size_t s = 0; s < stages_; ++s) {
      const auto& stage = placement.stages[s];
      add(s, Tier::device, stage.device_buffer_bytes, limits_[s].device);
      add(s, Tier::host, stage.host_buffer_bytes, limits_[s].host);
      add(s, Tier::disk, 0, -1);
    }
    return text_table(rows, 1, 2) + over +
           format("  besides: activations and cache {}, the program itself {}\n",
                  bytes_text(working_), bytes_text(program_));
  }

  // What the slowest tier of the slowest stage allows.
  std::string bound(const Placement& placement, double disk, double copy) {
    double seconds = 0;
    std::string why;
    const std::int64_t from_disk = infer::bytes_of_pass(placement, stage_, Tier::disk),
                       from_host = infer::bytes_of_pass(placement, stage_, Tier::host);
    const auto slower = [&](std::int64_t bytes, double rate, const char* from) {
      if (bytes == 0 || rate <= 0 || static_cast<double>(bytes) / rate <= seconds) return;
      seconds = static_cast<double>(bytes) / rate;
      why = format("{} from {}, at {}/s as measured just now", bytes_text(bytes), from,
                   human_bytes(rate));
    };
    slower(from_disk, disk, "the disk");
    slower(from_disk + from_host, copy, "host memory to the GPU");
    const double slowest = world_.max(seconds);
    if (slowest <= 0) return "  no weights are brought anew for each pass of the model\n";
    // The stage that has it tells it.
    const auto reasons = world_.gather_text(seconds == slowest ? why : "");
    for (const std::string& reason : reasons)
      if (!reason.empty())
        return format("  each pass of the model brings {}: at most {} {}/s\n", reason,
                      fixed(1 / slowest, slowest < 0.1 ? 1 : 4), use_.pass);
    return "";
  }

  comm::World& world_;
  const PlacementRequest& request_;
  const config::RunConfig& config_;
  const io::TensorSource& source_;
  comm::Mesh& mesh_;
  Device device_;
  const ModelUse& use_;
  infer::Held held_;
  parallel::TensorRegion region_;
  std::size_t stages_, stage_;
  std::vector<TierLimits> limits_;
  std::int64_t working_ = 0, program_ = 0;  // bytes beside the weights
};

}  // namespace

std::unique_ptr<infer::LoadedModel> load_model(
    comm::World& world, const Arguments& arguments, const PlacementRequest& request,
    const OpenedModel& opened, comm::Mesh& mesh, Device device, const ModelUse& use) {
  comm::Group& pipeline = mesh.group(comm::Axis::pipeline);
  infer::StagePart part{pipeline.rank(), pipeline.size()};
  std::optional<Placement> placement;
  infer::Held held{};
  world.agree([&] { held = held_weights(arguments, device); });
  if (request.any || request.dry_run) {
    Planner planner(world, request, opened, mesh, device, use, held);
    placement = planner.plan();
    const std::string text = planner.text(*placement);
    if (world.rank() == 0) {
      if (request.dry_run)
        output::write(text);
      else
        log::error(text.substr(0, text.size() - 1));
    }
    if (request.dry_run) return nullptr;
    part.blocks = placement->stages[static_cast<std::size_t>(part.stage)].blocks;
  }
  std::unique_ptr<infer::LoadedModel> model;
  world.agree([&] {
    model = std::make_unique<infer::LoadedModel>(
        opened.config.model, opened.config.precision.compute,
        mesh.group(comm::Axis::tensor), use.positions, *opened.tensors, device, part,
        held, placement ? &*placement : nullptr);
  });
  if (!placement) report_codes(world, *model);
  return model;
}

}  // namespace trireme::app
