// FrozenBase: which weights are codes, and reading them.
// SPDX-License-Identifier: Apache-2.0
#include "engine/frozen_base.hpp"

#include <algorithm>
#include <utility>

#include "engine/planned_device.hpp"

namespace trireme::engine {
namespace {

using model::BaseCodes;

std::string path_of(const NamedBox& named) { return "model/" + named.tensor; }

// Bytes of the codes of a box; 0: there are none.
std::size_t bytes_of(const config::AdapterSettings& adapter, const NamedBox& named,
                     const Shape& begin, const Shape& extent) {
  if (named.whole.rank() != 2 || extent.elements() == 0) return 0;
  if (adapter.codes)
    return adapter.codes->code_bytes(path_of(named), named.whole, begin, extent);
  require(
      adapter.quantize != BaseCodes::stored, Status::bad_content,
      "adapter.quantize = \"stored\": what a search, or a model without a deck, plans "
      "for is not read from a folder: write adapter.quantize = \"nf4\", \"int8\" or "
      "\"fp8\" there, or plan one deck");
  if (!model::becomes_codes(named.tensor, named.whole)) return 0;
  return model::made_bytes(adapter.quantize, named.whole, begin, extent);
}

bool is_coded(const config::AdapterSettings& adapter, const Param& param) {
  if (!param.frozen || param.table || param.shape.rank() != 2) return false;
  return std::all_of(param.boxes.begin(), param.boxes.end(), [&](const NamedBox& named) {
    return bytes_of(adapter, named, {0, 0}, named.whole) > 0;
  });
}

std::size_t bytes_of_box(const config::AdapterSettings& adapter, const NamedBox& named) {
  if (named.extent.elements() == 0) return 0;
  const std::size_t bytes = bytes_of(adapter, named, named.global_begin, named.extent);
  require(
      bytes > 0, Status::bad_content,
      "adapter.quantize: '{}' is cut into parts so narrow that their codes and scales "
      "are larger than numbers: write fewer parallel.tensor ranks",
      named.tensor);
  return bytes;
}

}  // namespace

std::vector<CodedParam> take_coded(const config::AdapterSettings& adapter,
                                   std::vector<ParamModule>& modules) {
  std::vector<CodedParam> coded;
  if (adapter.quantize == BaseCodes::none) return coded;
  int number = 0;
  for (ParamModule& module : modules) {
    std::erase_if(module.params, [&](Param* param) {
      if (!is_coded(adapter, *param)) return false;
      coded.push_back({number, param});
      return true;
    });
    ++number;
  }
  return coded;
}

FrozenBase::FrozenBase(std::vector<CodedParam> params, const config::RunConfig& config,
                       comm::Mesh& mesh, WeightAccess& others, DType type, Device device)
    : adapter_(config.adapter), params_(std::move(params)), codes_(others, device, type) {
  require(!for_gpu(mesh, device), Status::bad_content,
          "adapter.quantize = \"{}\": a GPU takes weights as numbers: write "
          "adapter.quantize = \"none\", or run.device = \"cpu\"",
          name_of(adapter_.quantize));
  if (config.parallel.sharding == optim::Sharding::weights) shards_.emplace(mesh, device);
  if (shards_) {
    for (const CodedParam& coded : params_)
      for (const NamedBox& named : coded.param->boxes)
        shards_->add(coded.module, coded.param->expert, bytes_of_box(adapter_, named));
    shards_->allocate();
  }
  if (!device.is_meta()) return;
  for (const CodedParam& coded : params_) {
    std::size_t bytes = 0;
    for (const NamedBox& named : coded.param->boxes)
      bytes += bytes_of_box(adapter_, named);
    codes_.add(coded.module, *coded.param, {}, bytes);
  }
  codes_.allocate();
  loaded_ = true;
}

std::vector<PlacedCodes> FrozenBase::read(const CodedParam& coded) {
  std::vector<PlacedCodes> all;
  for (const NamedBox& named : coded.param->boxes) {
    if (named.extent.elements() == 0) continue;
    OwnedCodes codes = adapter_.codes->read_codes(path_of(named), named.whole,
                                                  named.global_begin, named.extent);
    if (shards_)
      codes = shards_->take(coded.module, coded.param->expert, std::move(codes));
    all.push_back({named.local_begin, std::move(codes)});
  }
  return all;
}

void FrozenBase::load() {
  if (loaded_) return;
  require(adapter_.codes != nullptr, Status::bad_content,
          "adapter.quantize = \"{}\" is of the weights of a model, and model.from names "
          "none: write it, or adapter.quantize = \"none\"",
          name_of(adapter_.quantize));
  for (auto next = params_.begin(); next != params_.end();) {
    const int module = next->module;
    for (; next != params_.end() && next->module == module; ++next) {
      std::vector<PlacedCodes> codes = read(*next);
      std::size_t bytes = 0;
      for (const PlacedCodes& placed : codes) bytes += placed.codes.matrix.bytes();
      codes_.add(module, *next->param, std::move(codes), bytes);
    }
    if (shards_) shards_->keep(module);
  }
  codes_.allocate();
  loaded_ = true;
}

void FrozenBase::fetch(int module, Direction direction) {
  require(loaded_, "frozen weights are used before their codes are loaded");
  if (shards_) shards_->gather(module);
  codes_.fetch(module, direction);
}

std::size_t FrozenBase::code_bytes() const {
  return shards_ ? shards_->bytes() : codes_.code_bytes();
}

std::int64_t FrozenBase::elements() const {
  std::int64_t sum = 0;
  for (const CodedParam& coded : params_) sum += coded.param->shape.elements();
  return sum;
}

}  // namespace trireme::engine
