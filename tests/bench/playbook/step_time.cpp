// The equations of a step: layers, head, pipeline, reduction of gradients, update.
// SPDX-License-Identifier: Apache-2.0
#include "bench/playbook/step_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme::bench {
namespace {

// Of the H100 SXM's data sheet; not fitted.
constexpr double peak_flops = 989.5e12;  // dense bf16
constexpr double memory_rate = 3.35e12;  // bytes a second
constexpr double link_rate = 400e9;      // bytes a second, all NICs of a node

constexpr double milli = 1e-3, giga = 1e9;

// Beyond this a GPU of 80 GB is nearly full: the slowest rank waits for its allocator.
constexpr double full_from = 70e9;

enum Index : std::size_t {
  product_share,
  attention_share,
  layer_bytes,
  head_bytes,
  floor_node,
  floor_two_nodes,
  floor_four_nodes,
  pipeline_floor,  // of tensor 1, 2, 4, 8, 16, 32
  sharpness = pipeline_floor + 6,
  tensor_rate_node,
  tensor_rate_two,
  tensor_rate_four,
  tensor_spread,
  floor_head,
  floor_batch,
  reduce_rate,
  reduce_spread,
  reduce_rate_node,
  gather_rate,
  update_bytes,
  step_seconds,
  pipeline_reduction,
  slow_message,
  slow_fabric,
  constant_count
};

constexpr std::array<PlaybookConstant, constant_count> table = {{
    {"products, share of the peak", "1", .6, .4, 1},
    {"attention, share of the peak", "1", .2, .05, 1},
    {"other kernels of a layer, times the hidden state moves", "1", 110, 5, 300},
    {"loss, times the logits move", "1", 28, 1, 100},
    {"launch floor of a layer, no pipeline, tensor group in a node", "ms", 4, .5, 20},
    {"the same, tensor group on 2 nodes", "ms", 9, 1, 40},
    {"the same, tensor group on 4 nodes", "ms", 15, 1, 60},
    {"launch floor of a layer with a pipeline over nodes, tensor 1", "ms", 4, .5, 20},
    {"the same, tensor 2", "ms", 8, .5, 40},
    {"the same, tensor 4", "ms", 13, .5, 80},
    {"the same, tensor 8", "ms", 21, .5, 120},
    {"the same, tensor 16", "ms", 48, .5, 200},
    {"the same, tensor 32", "ms", 125, .5, 400},
    {"how sharply the larger of floor and work prevails (p-norm)", "1", 8, 1.5, 30},
    {"tensor group in a node", "GB/s", 320, 30, 900},
    {"tensor group on 2 nodes", "GB/s", 160, 5, 400},
    {"tensor group on 4 nodes", "GB/s", 100, 3, 400},
    {"loss of rate of tensor groups with the nodes, power", "1", .1, .01, 1.5},
    {"launch floor of the head", "ms", 1.5, .1, 40},
    {"fall of the pipeline's floor with the microbatch, power", "1", .04, .001, 1},
    {"gradients between 8 nodes, at one rank a node", "GB/s", 60, 3, 200},
    {"loss of that rate with the nodes, power", "1", .4, .01, 1.5},
    {"gradients within a node", "GB/s", 350, 30, 500},
    {"gather of ZeRO-1's weights, as share of the gradients' rate", "1", .27, .03, 7},
    {"update, bytes a parameter", "B", 43, 5, 500},
    {"a step, constant", "s", .05, .001, .2},
    {"all-reduce of a pipeline's gradients, times as long", "1", 2, .3, 20},
    {"message of a pipeline in the slow state", "s", .27, .1, .5},
    {"a step on 64 nodes without pipeline, more", "s", .9, .01, 5},
}};

double smooth_maximum(double a, double b, double power) {
  const double larger = std::max(a, b), smaller = std::min(a, b);
  return larger * std::pow(1 + std::pow(smaller / larger, power), 1 / power);
}

double layer_weights(const PlaybookModel& model) {
  return model.hidden * (4 * model.hidden + 3 * model.feed_forward);
}

struct Context {
  const PlaybookRun& run;
  std::span<const double> c;
  double tokens;  // of a microbatch
  double t;       // ranks of a tensor group
  double layer_weights;
  bool over_nodes;  // a pipeline over several nodes
};

std::size_t tensor_column(int tensor) {
  return static_cast<std::size_t>(std::clamp(std::lround(std::log2(tensor)), 0L, 5L));
}

double floor_of_layer(const Context& x) {
  const std::size_t column = tensor_column(x.run.tensor);
  if (x.over_nodes)
    return x.c[pipeline_floor + column] * milli *
           std::pow(x.run.micro, -x.c[floor_batch]);
  return milli * x.c[column < 4    ? floor_node
                     : column == 4 ? floor_two_nodes
                                   : floor_four_nodes];
}

// Forward and backward of a layer for a microbatch.
double layer_seconds(const Context& x) {
  const double h = x.run.model->hidden;
  const double products =
      6 * x.tokens * x.layer_weights / x.t / (x.c[product_share] * peak_flops);
  const double attention =
      6 * x.tokens * playbook_sequence * h / x.t / (x.c[attention_share] * peak_flops);
  const double others = x.c[layer_bytes] * x.tokens * h * 2 / x.t / memory_rate;
  double rate = x.c[tensor_rate_node];
  if (x.t > ranks_of_node)
    rate = x.c[x.t <= 2 * ranks_of_node ? tensor_rate_two : tensor_rate_four] *
           std::pow(x.run.nodes / 4, -x.c[tensor_spread]);
  const double messages = 8 * (x.t - 1) / x.t * x.tokens * h * 2 / (rate * giga);
  return smooth_maximum(products + attention + others + messages, floor_of_layer(x),
                        x.c[sharpness]);
}

double head_seconds(const Context& x) {
  const double logits = x.tokens * playbook_vocabulary / x.t;
  const double work =
      6 * logits * x.run.model->hidden / (x.c[product_share] * peak_flops) +
      x.c[head_bytes] * logits * 2 / memory_rate;
  // A pipeline over nodes slows the launches of the head as those of the layers.
  double slower = 1;
  if (x.over_nodes) {
    const std::size_t column = tensor_column(x.run.tensor);
    slower = x.c[pipeline_floor + column] / x.c[column < 4    ? floor_node
                                                : column == 4 ? floor_two_nodes
                                                              : floor_four_nodes];
  }
  return smooth_maximum(work, x.c[floor_head] * milli * slower, x.c[sharpness]);
}

// Reduction of gradients that the last backward does not hide, gather, update.
double ending_seconds(const Context& x, double weights, double longest_stage) {
  const double data = x.run.data;
  const double of_node = std::min(ranks_of_node / std::min(x.t, ranks_of_node), data);
  const bool between = data * x.t > ranks_of_node;
  const double rate =
      giga * (between ? x.c[reduce_rate] * std::sqrt(std::max(of_node, 1.)) *
                            std::pow(x.run.nodes / 8, -x.c[reduce_spread])
                      : x.c[reduce_rate_node]);
  const double sent = weights * (data - 1) / data;
  double reduction = sent * 4 * (x.run.zero1 ? 1 : 2) / rate;
  if (!x.run.zero1 && between && x.run.pipeline > 1) reduction *= x.c[pipeline_reduction];
  const double hidden = 2. / 3 * 2 / 3 * longest_stage;  // of its backward two thirds
  const double gather = x.run.zero1 ? 2 * sent / (rate * x.c[gather_rate]) : 0;
  const double update =
      x.c[update_bytes] * weights / (x.run.zero1 ? data : 1) / memory_rate;
  return std::max(reduction - hidden, 0.02 * reduction) + gather + update;
}

// Of a run that contradicts itself: as many as the batch takes, which is what the
// measured seconds are of.
double microbatches_of(const PlaybookRun& run) {
  if (run.micro * run.microbatches * run.data == run.batch) return run.microbatches;
  return std::max(1., std::round(run.batch / (run.micro * run.data)));
}

}  // namespace

std::span<const PlaybookConstant> playbook_constants() { return table; }

bool may_be_slow(const PlaybookRun& run) { return run.pipeline > 1; }

// Weights in bf16, gradients in fp32, Adam in fp32; of a layer what its backward needs
// (norms, attention, residuals: 15 hidden states; 4 as wide as the feed-forward) for each
// microbatch that is under way; of the head its logits in bf16 and in fp32.
bool nearly_full(const PlaybookRun& run, const PlaybookCut& cut) {
  if (run.pipeline == 1 || run.microbatches <= run.pipeline) return false;
  const double h = run.model->hidden, f = run.model->feed_forward;
  const double hidden_states = run.micro * playbook_sequence * 2 / run.tensor;  // x width
  for (std::size_t stage = 0; stage < cut.layers.size(); ++stage) {
    const bool has_head = static_cast<int>(stage) == cut.head;
    const double tables = (stage == 0 ? 1 : 0) + (has_head ? 1 : 0);
    const double weights = (cut.layers[stage] * layer_weights(*run.model) +
                            tables * playbook_vocabulary * h) /
                           run.tensor;
    const double under_way = run.pipeline - static_cast<double>(stage);
    const double bytes =
        weights * (6 + 12. / (run.zero1 ? run.data : 1)) +
        (15 * h + 4 * f) * cut.layers[stage] * hidden_states * under_way +
        (has_head ? 3 * playbook_vocabulary * hidden_states : 0);
    if (bytes > full_from) return true;
  }
  return false;
}

StepTime step_time(const PlaybookRun& run, const PlaybookCut& cut,
                   std::span<const double> constants) {
  const double h = run.model->hidden;
  const Context x = {run,
                     constants,
                     run.micro * playbook_sequence,
                     static_cast<double>(run.tensor),
                     layer_weights(*run.model),
                     run.pipeline > 1 && run.nodes > 1};
  const double layer = layer_seconds(x), head = head_seconds(x);
  const double message =
      run.pipeline > 1 ? x.tokens * h * 4 / x.t / link_rate : 0;  // both directions
  double longest = 0, sum = 0, weights = 0;
  for (std::size_t stage = 0; stage < cut.layers.size(); ++stage) {
    const bool has_head = static_cast<int>(stage) == cut.head;
    const double seconds = cut.layers[stage] * layer + (has_head ? head : 0) + message;
    longest = std::max(longest, seconds);
    sum += seconds;
    const double tables = (stage == 0 ? 1 : 0) + (has_head ? 1 : 0);
    weights = std::max(
        weights, cut.layers[stage] * x.layer_weights + tables * playbook_vocabulary * h);
  }
  StepTime time;
  const double microbatches = microbatches_of(run);
  time.normal = (microbatches - 1) * longest + sum +
                ending_seconds(x, weights / x.t, longest) + constants[step_seconds];
  if (run.nodes >= 64 && run.pipeline == 1) time.normal += constants[slow_fabric];
  time.slow = time.normal;
  if (may_be_slow(run))
    time.slow += constants[slow_message] * (run.pipeline == 2 ? 2 : 4) *
                 (microbatches + .35 * (run.pipeline - 1));
  return time;
}

Residual residual_of(const PlaybookRun& run, const StepTime& time) {
  const double normal = std::log(time.normal / run.seconds);
  const double slow = std::log(time.slow / run.seconds);
  if (may_be_slow(run) && normal < -.3 && std::abs(slow) < -normal) return {slow, true};
  return {normal, false};
}

}  // namespace trireme::bench
