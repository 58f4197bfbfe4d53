// Gathers whole tensors of the model from the ranks that hold their parts.
// SPDX-License-Identifier: Apache-2.0
#include "engine/whole_tensors.hpp"

#include <map>
#include <sstream>

#include "base/device_memory.hpp"
#include "kernels/elementwise.hpp"

namespace trireme::engine {

std::string name_of(const optim::StateBox& box) {
  return std::string(box.section) + "/" + box.named->tensor;
}

std::vector<NamedShape> all_tensors(comm::World& world,
                                    const std::vector<optim::StateBox>& boxes) {
  // A line each: name, rank, extents.
  std::map<std::string, std::string> lines;
  for (const auto& box : boxes) {
    std::ostringstream line;
    const Shape& whole = box.named->whole;
    line << whole.rank();
    for (int i = 0; i < whole.rank(); ++i) line << ' ' << whole[i];
    lines[name_of(box)] = line.str();
  }
  const auto join = [&] {
    std::string text;
    for (const auto& [name, shape] : lines) text += name + ' ' + shape + '\n';
    return text;
  };
  for (const std::string& text : world.gather_text(join())) {
    std::istringstream all(text);
    std::string line;
    while (std::getline(all, line)) {
      const auto space = line.find(' ');
      lines[line.substr(0, space)] = line.substr(space + 1);
    }
  }
  std::istringstream all(world.broadcast(join()));
  std::vector<NamedShape> tensors;
  std::string name;
  int rank = 0;
  while (all >> name >> rank) {
    std::int64_t first = 0, second = 0;
    all >> first;
    if (rank == 2) all >> second;
    tensors.push_back({name, rank == 2 ? Shape{first, second} : Shape{first}});
  }
  return tensors;
}

void gather_whole(comm::Mesh& mesh, const std::vector<optim::StateBox>& boxes,
                  const std::string& name, const TensorView& whole,
                  std::optional<int> root) {
  Stream stream;
  kernels::fill(stream, whole, 0.0);
  for (const auto& box : boxes) {
    if (!box.write || name_of(box) != name) continue;
    TensorView target = whole.rows(box.global_begin[0], box.data.dim(0));
    if (whole.shape().rank() == 2)
      target = target.columns(box.global_begin[1], box.data.dim(1));
    Stream device(box.data.device());
    copy_bytes(device, box.data, target);
  }
  if (root)
    mesh.everyone().reduce(stream, whole, *root).wait();
  else
    mesh.everyone().all_reduce(stream, whole).wait();
}

}  // namespace trireme::engine
