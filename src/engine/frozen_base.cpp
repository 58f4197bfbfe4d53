// FrozenBase: which weights are codes, and reading them.
// SPDX-License-Identifier: Apache-2.0
#include "engine/frozen_base.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <type_traits>
#include <utility>

#include "kernels/host/parallel.hpp"
#include "kernels/runtime/runtime.hpp"

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

bool is_of(const CodeShards::Run& run, const CodedParam& coded) {
  return coded.module == run.module && coded.param->expert == run.expert;
}

// A matrix of codes but for its memory, as ranks tell each other.
struct Described {
  Described() = default;
  explicit Described(const CodedMatrix& matrix)
      : read(true),
        has_zeros(!matrix.zeros.empty()),
        type(matrix.type),
        rounding(matrix.rounding),
        factor(matrix.factor),
        book(matrix.book),
        layout(matrix.layout),
        shape(matrix.shape) {}

  OwnedCodes without_memory() const {
    OwnedCodes codes(Device::meta(), type, shape, layout, has_zeros);
    codes.matrix.rounding = rounding;
    codes.matrix.factor = factor;
    codes.matrix.book = book;
    return codes;
  }

  bool read = false, has_zeros = false;
  CodeType type{};
  DType rounding{};
  float factor = 1;
  CodeBook book{};
  ScaleLayout layout{};
  Shape shape;
};
static_assert(std::is_trivially_copyable_v<Described>);

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
    : adapter_(config.adapter),
      params_(std::move(params)),
      device_(device),
      codes_(others, device, type) {
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

template <class Predicate>
FrozenBase::Pieces FrozenBase::pieces(const Predicate& is_wanted) const {
  Pieces all;
  for (std::size_t i = 0; i < params_.size(); ++i) {
    if (!is_wanted(params_[i])) continue;
    for (const NamedBox& named : params_[i].param->boxes)
      if (named.extent.elements() > 0) all.push_back({i, &named});
  }
  return all;
}

std::vector<OwnedCodes> FrozenBase::read(const Pieces& pieces) const {
  std::vector<std::optional<OwnedCodes>> codes(pieces.size());
  std::vector<std::exception_ptr> failures(pieces.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](std::int64_t) {
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      const NamedBox& named = *pieces[i].named;
      try {
        codes[i].emplace(adapter_.codes->read_codes(path_of(named), named.whole,
                                                    named.global_begin, named.extent));
      } catch (const Error&) {
        failures[i] = std::current_exception();
      }
    }
  };
  kernels::run_chunks("codes of the base",
                      adapter_.codes->reads_at_once() ? kernels::threads() : 1, work);
  std::vector<OwnedCodes> all;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (failures[i]) std::rethrow_exception(failures[i]);
    all.push_back(std::move(*codes[i]));
  }
  return all;
}

// What goes to a GPU is on the host for as many pieces as are read at once.
void FrozenBase::read_all(AllCodes& all) {
  const Pieces every = pieces([](const CodedParam&) { return true; });
  const std::size_t at_once =
      device_.is_host() ? every.size() : static_cast<std::size_t>(kernels::threads());
  for (std::size_t first = 0; first < every.size(); first += at_once) {
    const auto begin = every.begin() + static_cast<std::ptrdiff_t>(first);
    const std::size_t count = std::min(at_once, every.size() - first);
    const Pieces some(begin, begin + static_cast<std::ptrdiff_t>(count));
    std::vector<OwnedCodes> codes = read(some);
    for (std::size_t i = 0; i < count; ++i)
      all[some[i].param].push_back(
          {some[i].named->local_begin, moved_to(device_, std::move(codes[i]))});
  }
}

// In a round each rank of the group reads one run. A rank that cannot goes on with the
// messages, for the others wait for them.
void FrozenBase::read_in_turns(bool expert, AllCodes& all) {
  const std::vector<CodeShards::Run> runs = shards_->runs(expert);
  if (runs.empty()) return;
  const comm::Group& group = shards_->group_of(runs.front());
  const auto ranks = static_cast<std::size_t>(group.size());
  std::exception_ptr failure;
  for (std::size_t first = 0; first < runs.size(); first += ranks) {
    std::vector<OwnedCodes> own;
    const std::size_t mine = first + static_cast<std::size_t>(group.rank());
    if (mine < runs.size() && !failure) {
      try {
        own = read(
            pieces([&](const CodedParam& coded) { return is_of(runs[mine], coded); }));
        for (OwnedCodes& codes : own)
          codes =
              shards_->place(runs[mine], std::move(codes), CodeShards::Contents::copied);
      } catch (const Error&) {
        failure = std::current_exception();
        own.clear();
      }
    }
    for (std::size_t i = first; i < std::min(first + ranks, runs.size()); ++i)
      scatter(runs[i], static_cast<int>(i - first),
              i == mine ? std::move(own) : std::vector<OwnedCodes>(), all);
  }
  if (failure) std::rethrow_exception(failure);
}

void FrozenBase::scatter(const CodeShards::Run& run, int reader,
                         std::vector<OwnedCodes> own, AllCodes& all) {
  comm::Group& group = shards_->group_of(run);
  const Pieces wanted =
      pieces([&](const CodedParam& coded) { return is_of(run, coded); });
  // 1. what they are; nothing where the reader failed
  std::vector<Described> described(wanted.size());
  for (std::size_t i = 0; i < own.size(); ++i) described[i] = Described(own[i].matrix);
  Stream stream;
  const auto bytes = static_cast<std::int64_t>(described.size() * sizeof(Described));
  group.broadcast(stream, {described.data(), DType::u8, {bytes}}, reader).wait();
  if (!described.front().read) return;
  // 2. where they lie
  for (std::size_t i = 0; i < wanted.size(); ++i)
    all[wanted[i].param].push_back(
        {wanted[i].named->local_begin,
         group.rank() == reader ? std::move(own[i])
                                : shards_->place(run, described[i].without_memory(),
                                                 CodeShards::Contents::left)});
  // 3. their bytes
  shards_->scatter(run, reader);
}

void FrozenBase::load() {
  if (loaded_) return;
  require(adapter_.codes != nullptr, Status::bad_content,
          "adapter.quantize = \"{}\" is of the weights of a model, and model.from names "
          "none: write it, or adapter.quantize = \"none\"",
          name_of(adapter_.quantize));
  AllCodes all(params_.size());
  if (shards_) {
    for (const bool expert : {false, true}) read_in_turns(expert, all);
  } else {
    read_all(all);
  }
  for (std::size_t i = 0; i < params_.size(); ++i) {
    std::size_t bytes = 0;
    for (const PlacedCodes& placed : all[i]) bytes += placed.codes.matrix.bytes();
    codes_.add(params_[i].module, *params_[i].param, std::move(all[i]), bytes);
  }
  codes_.allocate();
  loaded_ = true;
}

std::vector<io::TensorBox> FrozenBase::boxes() const {
  std::vector<io::TensorBox> boxes;
  const auto add = [&](const NamedBox& named, const std::string& what, const Shape& begin,
                       const TensorView& data) {
    if (!data.empty())
      boxes.push_back(
          {format("base/{} {}", named.tensor, what), named.whole, begin, data, false});
  };
  // 1. the bytes of a run, called after its first box
  if (shards_) {
    for (const bool expert : {false, true})
      for (const CodeShards::Run& run : shards_->runs(expert)) {
        const comm::Group& group = shards_->group_of(run);
        const NamedBox& first =
            *pieces([&](const CodedParam& coded) { return is_of(run, coded); })
                 .front()
                 .named;
        add(first,
            format("at {} and the codes of its module, part {} of {}", first.global_begin,
                   group.rank(), group.size()),
            {0}, shards_->shard_of(run));
      }
    return boxes;
  }
  // 2. each box
  codes_.each([&](const Param& param, const std::vector<PlacedCodes>& codes) {
    std::size_t i = 0;
    for (const NamedBox& named : param.boxes) {
      if (named.extent.elements() == 0) continue;
      const CodedMatrix& matrix = codes[i++].codes.matrix;
      add(named, "(codes)", named.global_begin, matrix.codes);
      add(named, "(scales)", named.global_begin, matrix.scales);
      add(named, "(zero points)", named.global_begin, matrix.zeros);
    }
  });
  return boxes;
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
