// ParameterStore: buckets of gradients, sums over the mesh, and the gradient's norm.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "kernels/elementwise.hpp"
#include "optim/parameter_store.hpp"

namespace trireme::optim {

// Buckets are cut from the end: backward completes the last weights first.
void ParameterStore::cut_buckets() {
  const auto element = static_cast<std::int64_t>(size_of(config_.accumulate));
  const std::int64_t least = std::max<std::int64_t>(config_.bucket_bytes / element, 1);
  Bucket bucket{elements_, elements_, 0, 0, {}};
  for (std::size_t i = params_.size(); i-- > 0;) {
    bucket.begin = entries_[i].begin;
    ++bucket.params;
    entries_[i].bucket = buckets_.size();
    if (bucket.end - bucket.begin >= least || i == 0) {
      const std::int64_t next_end = bucket.begin;
      buckets_.push_back(std::move(bucket));
      bucket = Bucket{next_end, next_end, 0, 0, {}};
    }
  }
}

void ParameterStore::begin_step(std::int64_t microbatches) {
  for (std::size_t i = 0; i < params_.size(); ++i) {
    entries_[i].missing = microbatches * params_[i]->contributions;
  }
  for (Bucket& bucket : buckets_) bucket.pending = bucket.params;
}

void ParameterStore::ready(Param& param) {
  Entry& e = entries_[index_of(param)];
  require(e.missing > 0, "'{}' has more gradient contributions than expected",
          param.name);
  if (--e.missing > 0) return;
  Bucket& bucket = buckets_[e.bucket];
  if (--bucket.pending > 0) return;
  if (mesh_.replicas().size() == 1) return;
  bucket.handle = mesh_.replicas().all_reduce(
      stream_, gradients_.view().rows(bucket.begin, bucket.end - bucket.begin));
}

void ParameterStore::finish_gradients() {
  for (Bucket& bucket : buckets_) {
    require(bucket.pending == 0, "{} weights have no complete gradient", bucket.pending);
    bucket.handle.wait();
  }
  const auto& tensor = mesh_.group(comm::Axis::tensor);
  if (tensor.size() == 1 || partial_tensors_.empty()) return;
  // As many tensors at a time as the buffer holds.
  const std::int64_t room = partial_.view().elements();
  std::size_t first = 0;
  std::int64_t used = 0;
  for (std::size_t i = 0; i < partial_tensors_.size(); ++i) {
    const std::int64_t size = partial_tensors_[i].any->whole.elements();
    if (used + size > room) {
      sum_partial_range(first, i);
      first = i;
      used = 0;
    }
    used += size;
  }
  sum_partial_range(first, partial_tensors_.size());
}

// A tensor appears here on every rank of the tensor axis if any of its boxes is
// replicated: each rank adds its boxes into zeros at their global place, the sum over
// ranks is the whole gradient, and each rank takes its boxes back. Boxes that one rank
// alone holds pass through unchanged. So one rule serves norms under sequence parallelism
// and shared key/value heads.
void ParameterStore::find_partial_tensors() {
  std::map<std::string, std::size_t> index;
  std::vector<PartialTensor> all;
  for (const Param* param : params_) {
    for (const Slab& slab : param->slabs) {
      const auto [it, fresh] = index.try_emplace(slab.tensor, all.size());
      if (fresh) all.push_back({&slab, {}});
      all[it->second].boxes.emplace_back(&slab, box(gradients_.view(), *param, slab));
    }
  }
  std::int64_t largest = 0, total = 0;
  for (PartialTensor& tensor : all) {
    if (tensor.any->place != Place::replicate) continue;
    largest = std::max(largest, tensor.any->whole.elements());
    total += tensor.any->whole.elements();
    partial_tensors_.push_back(std::move(tensor));
  }
  if (partial_tensors_.empty() || mesh_.group(comm::Axis::tensor).size() == 1) return;
  const auto element = static_cast<std::int64_t>(size_of(config_.accumulate));
  const std::int64_t room =
      std::clamp(config_.bucket_bytes / element, largest, std::max(total, largest));
  partial_ = Buffer(stream_.device(), config_.accumulate, {room},
                    MemoryClass::communication, "partial gradients");
}

void ParameterStore::sum_partial_range(std::size_t first, std::size_t last) {
  if (first == last) return;
  const auto copy_boxes = [&](bool out) {
    std::int64_t begin = 0;
    for (std::size_t i = first; i < last; ++i) {
      const PartialTensor& tensor = partial_tensors_[i];
      const Shape& whole = tensor.any->whole;
      const TensorView full =
          partial_.view().rows(begin, whole.elements()).reshape(whole);
      begin += whole.elements();
      for (const auto& [slab, data] : tensor.boxes) {
        TensorView target = full.rows(slab->global_begin[0], slab->extent[0]);
        if (whole.rank() == 2) {
          target = target.columns(slab->global_begin[1], slab->extent[1]);
        }
        kernels::copy(stream_, out ? data : target, out ? target : data);
      }
    }
    return begin;
  };
  std::int64_t elements = 0;
  for (std::size_t i = first; i < last; ++i) {
    elements += partial_tensors_[i].any->whole.elements();
  }
  const TensorView used = partial_.view().rows(0, elements);
  kernels::fill(stream_, used, 0.0);
  copy_boxes(true);
  mesh_.group(comm::Axis::tensor).all_reduce(stream_, used).wait();
  copy_boxes(false);
}

double ParameterStore::gradient_norm() {
  if (scalar_.view().empty()) {
    scalar_ =
        Buffer(stream_.device(), DType::f64, {1}, MemoryClass::communication, "norm");
  }
  double sum = 0;
  for (const Param* param : params_) {
    for (const Slab& slab : param->slabs) {
      if (!slab.owned) continue;
      sum += kernels::sum_of_squares(stream_, box(gradients_.view(), *param, slab));
    }
  }
  if (stream_.device().is_meta()) return 0;
  scalar_.view().data<double>()[0] = sum;
  for (const comm::Axis axis : {comm::Axis::tensor, comm::Axis::pipeline}) {
    mesh_.group(axis).all_reduce(stream_, scalar_.view()).wait();
  }
  return std::sqrt(scalar_.view().data<double>()[0]);
}

}  // namespace trireme::optim
