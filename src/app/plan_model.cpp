// What a model takes on one of N ranks: inference, adapters, training; plans of each.
// SPDX-License-Identifier: Apache-2.0
#include "app/plan_model.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "app/memory_check.hpp"
#include "app/named_model.hpp"
#include "app/planned_device.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/terminal.hpp"
#include "base/text.hpp"
#include "base/text_table.hpp"
#include "infer/block_cache.hpp"
#include "optim/update_rules.hpp"
#include "plan/prediction.hpp"
#include "plan/search_space.hpp"

namespace trireme::app {
namespace {

// On meta there is nothing to read into.
class NoTensors final : public io::TensorSource {
 public:
  void read(const std::string&, const Shape&, const Shape&,
            const TensorView&) const override {}
};

// Bytes of a rank, and what they are.
struct Need {
  double weights = 0, gradients = 0, optimizer = 0, activations = 0, other = 0;
  double total() const { return weights + gradients + optimizer + activations + other; }
};

struct Row {
  std::string type, use;
  std::optional<Need> need;  // none: the rules refuse it
};

double elements_of(const std::vector<Param*>& params) {
  double sum = 0;
  for (const Param* param : params) sum += static_cast<double>(param->shape.elements());
  return sum;
}

// Of what stays of a text in layers with linear attention, as infer::Generator keeps it.
double state_bytes(const infer::LoadedModel& model) {
  const model::ModelConfig& m = model.config();
  const Range layers = model.stage().config().blocks;
  if (!m.has_linear()) return 0;
  const infer::StateShapes shapes = infer::state_shapes(model);
  const auto bytes_of = [](const Shape& shape, DType type) {
    return static_cast<double>(shape.elements()) * static_cast<double>(size_of(type));
  };
  double bytes = 0;
  for (std::int64_t layer = layers.begin; layer < layers.end; ++layer)
    if (m.is_linear(layer))
      bytes += bytes_of(shapes.tail, model.dtype()) +
               bytes_of(shapes.state, accumulator_of(model.dtype()));
  return bytes;
}

// Weights and the cache of `texts` texts on the rank of tensor x pipeline ranks that
// holds most: the model that would generate, built without memory.
Need inference_need(const model::ModelConfig& config, DType type,
                    const comm::MeshShape& shape, std::int64_t texts) {
  Need most;
  for (int stage = 0; stage < shape.pipeline; ++stage) {
    const comm::Mesh mesh = comm::Mesh::meta(shape, stage * shape.tensor);
    infer::LoadedModel model(config, type, mesh.group(comm::Axis::tensor),
                             config.sequence, NoTensors(), Device::meta(),
                             {stage, shape.pipeline});
    Need need;
    // Its parameters, from the same stage again: the loaded one shows none to write to.
    model::Stage parts(model.stage().config(), model.region(), Device::meta());
    need.weights = elements_of(parts.parameters()) * static_cast<double>(size_of(type));
    double cache = state_bytes(model);
    for (const std::int64_t bytes : infer::block_bytes(model, {type}, config.sequence))
      cache += static_cast<double>(bytes);
    need.activations = static_cast<double>(texts) * cache;
    if (need.total() > most.total()) most = need;
  }
  return most;
}

// The stage that holds most, of plans without a clock.
Need training_need(const config::RunConfig& config, const plan::PlannedDevice& on) {
  Need most;
  plan::PlannedDevice untimed = on;
  untimed.machine = nullptr;
  for (const plan::Plan& plan : plan::plan_stages(config, untimed)) {
    const auto bytes_of = [&](MemoryClass what) {
      return static_cast<double>(plan.memory[static_cast<std::size_t>(what)]);
    };
    Need need{bytes_of(MemoryClass::weights), bytes_of(MemoryClass::gradients),
              bytes_of(MemoryClass::optimizer), bytes_of(MemoryClass::activations), 0};
    need.other = plan::device_bytes(plan, on) - static_cast<double>(plan.program_bytes) -
                 need.total();
    if (need.total() > most.total()) most = need;
  }
  return most;
}

class ModelTable {
 public:
  ModelTable(const Arguments& arguments, const plan::Machine* machine, int ranks,
             int threads)
      : machine_(machine), named_(read_named_model(arguments.words().front())) {
    const DeckWishes wishes = read_wishes(arguments);
    deck_.name = format("the deck of {}", arguments.words().front());
    deck_.text = plan_deck(named_, wishes, ranks);
    deck_.overrides.assign(arguments.words().begin() + 1, arguments.words().end());
    deck_.ranks = deck_.ranks_on_node = ranks;
    if (machine != nullptr)
      deck_.ranks_on_node =
          static_cast<int>(std::min<std::int64_t>(machine->ranks_per_node, ranks));
    // What cannot be trained at all is told as of any deck.
    const io::Deck deck = deck_.deck({});
    config_ = config::make_run_config(deck, ranks, deck_.ranks_on_node);
    on_ = planned_device(config_.run, machine, threads);
    given_ = {deck.given("adapter.rank"), deck.given("optimizer.name")};
    types_ = {"fp32", "bf16", "fp16", "fp8"};
    if (!wishes.compute.empty() || deck.where("precision.compute") == "command line")
      types_ = {unquoted(deck.value_text("precision.compute"))};
    optimizer_ = unquoted(deck.value_text("optimizer.name"));
  }

  void print() {
    log::line(wrapped(head(), terminal::prose_columns(), 10));
    fill();
    log::line(table());
    for (const std::string& why : refusals_) log::line(why);
    if (machine_ == nullptr) return;
    const std::vector<plan::Plan> plans = plan::plan_stages(config_, on_);
    log::line(format("deck      training with {} in {}; --search finds a faster one",
                     optimizer_, name_of(config_.precision.compute)));
    log::line(wrapped(plan::describe(plan::predict(config_, plans, *machine_), *machine_),
                      terminal::prose_columns(), 10));
  }

 private:
  static std::string unquoted(const std::string& text) {
    return text.size() < 2 ? text : text.substr(1, text.size() - 2);
  }

  std::string head() const {
    const comm::Mesh mesh = comm::Mesh::meta({}, 0);
    const parallel::TensorRegion region(mesh.group(comm::Axis::tensor), false);
    model::StageConfig whole{.model = config_.model, .blocks = {0, config_.model.layers}};
    model::Stage stage(whole, region, Device::meta());
    double largest = 0;
    std::string name;
    for (const ParamModule& module : stage.modules()) {
      const double elements = elements_of(module.params);
      if (elements > largest) name = module.name;
      largest = std::max(largest, elements);
    }
    const auto parameters = model::parameter_count(config_.model);
    return format(
        "model     {}: {}, {} parameters\nweights   {} in fp32, {} in 16 bits, {} in 8; "
        "the largest layer ({}) {}, {} and {}",
        named_.name, named_.what, parameters, bytes_of(4.0 * count(parameters)),
        bytes_of(2.0 * count(parameters)), bytes_of(count(parameters)), name,
        bytes_of(4 * largest), bytes_of(2 * largest), bytes_of(largest));
  }
  static double count(std::int64_t elements) { return static_cast<double>(elements); }
  static std::string bytes_of(double bytes) { return human_bytes(bytes); }

  // As many ranks as can hold the model together, tensor ranks before stages.
  comm::MeshShape inference_mesh() const {
    comm::MeshShape best;
    for (int tensor = 1; tensor <= deck_.ranks; ++tensor) {
      if (deck_.ranks % tensor != 0 || tensor > deck_.ranks_on_node) continue;
      for (int stages = 1; stages <= deck_.ranks / tensor; ++stages) {
        const int ranks = tensor * stages;
        if (deck_.ranks % ranks != 0 || stages > config_.model.layers ||
            ranks < best.size())
          continue;
        plan::SearchDeck deck = deck_;
        deck.ranks = deck.ranks_on_node = ranks;
        const std::vector<std::string> more = {format("parallel.tensor={}", tensor),
                                               format("parallel.pipeline={}", stages),
                                               format("batch.global={}", stages),
                                               "batch.micro=1",
                                               "parallel.context=1",
                                               "parallel.expert=1",
                                               "parallel.sharding_strategy=NO_SHARD"};
        if (deck.make(more)) best = {.pipeline = stages, .tensor = tensor};
      }
    }
    return best;
  }

  void fill() {
    const comm::MeshShape shape = inference_mesh();
    const std::int64_t texts = config_.batch.micro;
    for (const std::string& type : types_) {
      const std::string typed = format("precision.compute={}", type);
      const std::vector<std::string> more = {typed};
      const DType compute = deck_.read(more).precision.compute;
      if (type != "fp8")
        rows_.push_back({type,
                         format("inference on {} x {}", shape.tensor, shape.pipeline),
                         inference_need(config_.model, compute, shape, texts)});
      add_training(type, given_.rank ? "LoRA" : "LoRA, rank 16",
                   {typed, given_.rank ? "" : "adapter.rank=16"});
      if (given_.rank) continue;
      if (type != "fp8")
        add_training(type, "QLoRA, nf4, rank 16",
                     {typed, "adapter.rank=16", "adapter.quantize=nf4"});
      std::string_view last;
      for (const optim::UpdateRule& rule : optim::update_rules) {
        if (rule.name == std::exchange(last, rule.name)) continue;
        const std::string name(rule.name);
        if (!given_.optimizer || name == optimizer_)
          add_training(type, "training, " + name, {typed, "optimizer.name=" + name});
      }
    }
  }

  void add_training(const std::string& type, const std::string& use,
                    std::vector<std::string> overrides) {
    std::erase(overrides, "");
    Row row{type, use, {}};
    try {
      row.need = training_need(config::make_run_config(deck_.deck(overrides), deck_.ranks,
                                                       deck_.ranks_on_node),
                               on_);
    } catch (const Error& error) {
      const std::string why = error.what();
      refusals_.push_back(
          format("          {}, {}: {}", type, use, why.substr(0, why.find('\n'))));
    }
    rows_.push_back(row);
  }

  std::string table() const {
    const auto& mesh = config_.parallel.mesh;
    const bool sharded = config_.parallel.sharding != optim::Sharding::none;
    const double room = machine_ == nullptr ? 0 : room_on(*machine_).bytes;
    std::string text = format(
        "memory    of a rank; training on {} = pipeline {} x data {} x context {} "
        "x tensor {}{}: {} sequences of {} tokens a step, {} at a time on each; "
        "inference on tensor x pipeline ranks with the cache of {}\n",
        counted(mesh.size(), "rank"), mesh.pipeline, mesh.data, mesh.context, mesh.tensor,
        sharded ? format(", state shared out over {}", config_.parallel.folding.shard)
                : std::string(),
        config_.batch.global, config_.model.sequence, config_.batch.micro,
        config_.batch.micro == 1 ? std::string("one such text")
                                 : format("{} such texts", config_.batch.micro));
    text = wrapped(text, terminal::prose_columns(), 10);
    std::vector<TextRow> rows = {{"type", "use", "weights", "gradients", "optimizer",
                                  "activations", "other", "in all"}};
    if (machine_ != nullptr) rows[0].push_back("fits " + human_bytes(room));
    for (const Row& row : rows_) {
      TextRow cells = {row.type, row.use};
      if (row.need) {
        const Need& need = *row.need;
        for (const double bytes : {need.weights, need.gradients, need.optimizer,
                                   need.activations, need.other, need.total()})
          cells.push_back(bytes > 0 ? human_bytes(bytes) : "-");
        const double all = need.total() + static_cast<double>(plan::program_bytes(on_));
        if (machine_ != nullptr) cells.emplace_back(all <= room ? "yes" : "no");
      } else {
        cells.resize(rows[0].size(), "-");
      }
      rows.push_back(std::move(cells));
    }
    text += text_table(rows, 2, 2);
    text.pop_back();
    return text;
  }

  const plan::Machine* machine_;
  NamedModel named_;
  plan::SearchDeck deck_;
  config::RunConfig config_;
  plan::PlannedDevice on_;
  struct Given {
    bool rank = false, optimizer = false;
  } given_;
  std::vector<std::string> types_;
  std::string optimizer_;
  std::vector<Row> rows_;
  std::vector<std::string> refusals_;
};

}  // namespace

int plan_model(comm::World& world, const Arguments& arguments,
               const plan::Machine* machine, int ranks) {
  world.agree([&] {
    if (world.rank() != 0) return;
    ModelTable(arguments, machine, ranks, planning_threads(world.ranks_on_node()))
        .print();
  });
  return 0;
}

}  // namespace trireme::app
