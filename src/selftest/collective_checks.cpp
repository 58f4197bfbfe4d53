// Each collective against what the known inputs of all ranks make of it on a host.
// SPDX-License-Identifier: Apache-2.0
// Where a rank's result is wrong, that rank is named: of a collective alone nobody can
// tell whether the rank, its neighbour or the wire between them is to blame.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>

#include "base/philox.hpp"
#include "comm/collective.hpp"
#include "comm/mesh.hpp"
#include "selftest/check.hpp"

namespace trireme::selftest {
namespace {

using comm::Axis;
using comm::Collective;
using comm::MeshShape;

// One for each rank; small messages go to everyone at once, others in chunks.
constexpr std::int64_t lengths[] = {1, 5, 1003, 40009};
constexpr std::array types = {DType::f32, DType::bf16};
// Of all ranks together: what is right is made for each rank's part on every rank.
constexpr std::int64_t most_elements = 1 << 19;

// Elements [first, first + n) of what the world's rank `rank` gives, as the type holds
// them.
Vector given_by(int rank, std::int64_t n, DType dtype, std::int64_t first = 0) {
  const Random random(static_cast<std::uint64_t>(rank) + 1, hash_name("collective"));
  Vector values;
  for (std::int64_t i = first; i < first + n; ++i)
    values.push_back(random.uniform(static_cast<std::uint64_t>(i)) * 2 - 1);
  return rounded(dtype, values);
}

// A group and its members: ranks of the world in the group's order.
struct Members {
  comm::Group& group;
  std::vector<int> ranks;
  bool linked = true;  // with NCCL ranks may send to their neighbours one by one
  int size() const { return group.size(); }
  int mine() const { return ranks[static_cast<std::size_t>(group.rank())]; }
  int at(int rank) const { return ranks[static_cast<std::size_t>(rank)]; }
};

// The members of this rank's group along an axis.
std::vector<int> members_of(const MeshShape& shape, Axis axis, int rank) {
  std::vector<int> ranks;
  for (int other = 0; other < shape.size(); ++other) {
    bool same = true;
    for (int a = 0; a < comm::axes; ++a) {
      const auto along = static_cast<Axis>(a);
      same &= along == axis ||
              shape.coordinate(other, along) == shape.coordinate(rank, along);
    }
    if (same) ranks.push_back(other);
  }
  return ranks;
}

// Sums of N numbers below 1, perhaps in the tensor's own type and in any order (NCCL):
// N additions of partial sums below N.
void compare_sum(Probe& probe, const Members& of, DType dtype, const Vector& actual,
                 std::int64_t first) {
  Vector sum(actual.size());
  for (const int rank : of.ranks)
    sum = added(sum, given_by(rank, static_cast<std::int64_t>(sum.size()), dtype, first));
  const double n = of.size();
  probe.close(dtype, actual, sum, n * n * roundoff(dtype));
}

void check_all_reduce(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const Tensor x = probe.zeros(dtype, {n});
  x.set(given_by(of.mine(), n, dtype));
  of.group.all_reduce(probe.stream(), x).wait();
  compare_sum(probe, of, dtype, x.values(), 0);
  x.set(given_by(of.mine(), n, dtype));
  of.group.all_reduce(probe.stream(), x, comm::Reduce::max).wait();
  Vector most = given_by(of.at(0), n, dtype);
  for (const int rank : of.ranks) {
    const Vector other = given_by(rank, n, dtype);
    for (std::size_t i = 0; i < most.size(); ++i) most[i] = std::max(most[i], other[i]);
  }
  probe.equal(x.values(), most);
}

void check_reduce_scatter(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const std::int64_t whole = n * of.size();
  const Tensor from = probe.zeros(dtype, {whole}), to = probe.zeros(dtype, {n});
  from.set(given_by(of.mine(), whole, dtype));
  of.group.reduce_scatter(probe.stream(), from, to).wait();
  compare_sum(probe, of, dtype, to.values(), of.group.rank() * n);
}

void check_all_gather(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const Tensor from = probe.zeros(dtype, {n}), to = probe.zeros(dtype, {n * of.size()});
  from.set(given_by(of.mine(), n, dtype));
  of.group.all_gather(probe.stream(), from, to).wait();
  Vector joined;
  for (const int rank : of.ranks) {
    const Vector part = given_by(rank, n, dtype);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  probe.equal(to.values(), joined);
}

// On the first and the last rank as root.
void check_reduce(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  for (const int root : {0, of.size() - 1}) {
    const Tensor x = probe.zeros(dtype, {n});
    x.set(given_by(of.mine(), n, dtype));
    of.group.reduce(probe.stream(), x, root).wait();
    if (of.group.rank() == root) compare_sum(probe, of, dtype, x.values(), 0);
  }
}

void check_broadcast(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  for (const int root : {0, of.size() - 1}) {
    const Tensor x = probe.zeros(dtype, {n});
    x.set(given_by(of.mine(), n, dtype));
    of.group.broadcast(probe.stream(), x, root).wait();
    probe.equal(x.values(), given_by(of.at(root), n, dtype));
  }
}

void check_all_to_all(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const std::int64_t whole = n * of.size();
  const Tensor from = probe.zeros(dtype, {whole}), to = probe.zeros(dtype, {whole});
  from.set(given_by(of.mine(), whole, dtype));
  of.group.all_to_all(probe.stream(), from, to).wait();
  Vector joined;
  for (const int rank : of.ranks) {
    const Vector part = given_by(rank, n, dtype, of.group.rank() * n);
    joined.insert(joined.end(), part.begin(), part.end());
  }
  probe.equal(to.values(), joined);
}

// To the next rank from the one before, the last to the first.
void check_send(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const int size = of.size(), next = (of.group.rank() + 1) % size;
  const int previous = (of.group.rank() + size - 1) % size;
  const Tensor from = probe.zeros(dtype, {n}), to = probe.zeros(dtype, {n});
  from.set(given_by(of.mine(), n, dtype));
  comm::Handle sent, received;
  const auto start = [&] {
    sent = of.group.send(probe.stream(), from, next);
    received = of.group.receive(probe.stream(), to, previous);
  };
  if (of.linked) {
    start();
  } else {
    const comm::Group::Exchange together(of.group);
    start();
  }
  received.wait();
  sent.wait();
  probe.equal(to.values(), given_by(of.at(previous), n, dtype));
}

// As experts' rows travel: to each other rank as many elements as its number wants.
void check_exchange(Probe& probe, const Members& of, DType dtype, std::int64_t n) {
  const int rank = of.group.rank();
  std::vector<Tensor> from, to;
  std::vector<comm::Handle> handles;
  {
    const comm::Group::Exchange together(of.group);
    for (int peer = 0; peer < of.size(); ++peer) {
      from.push_back(probe.zeros(dtype, {n + peer}));
      to.push_back(probe.zeros(dtype, {n + rank}));
      if (peer == rank) continue;
      from.back().set(given_by(of.mine(), n + peer, dtype));
      handles.push_back(of.group.send(probe.stream(), from.back(), peer));
      handles.push_back(of.group.receive(probe.stream(), to.back(), peer));
    }
  }
  for (comm::Handle& handle : handles) handle.wait();
  for (int peer = 0; peer < of.size(); ++peer)
    if (peer != rank)
      probe.equal(to[static_cast<std::size_t>(peer)].values(),
                  given_by(of.at(peer), n + rank, dtype));
}

struct Row {
  Collective kind;  // of comm/collective.hpp; send stands for receive as well
  void (*run)(Probe&, const Members&, DType, std::int64_t);
};
constexpr std::array rows = {
    Row{Collective::all_reduce, check_all_reduce},
    Row{Collective::reduce_scatter, check_reduce_scatter},
    Row{Collective::all_gather, check_all_gather},
    Row{Collective::reduce, check_reduce},
    Row{Collective::broadcast, check_broadcast},
    Row{Collective::all_to_all, check_all_to_all},
    Row{Collective::send, check_send},
};
static_assert(rows.size() + 1 == comm::collective_kinds, "a collective has no check");

// A mesh that is made when it is first asked for, and serves all checks.
class LazyMesh {
 public:
  LazyMesh(comm::World& world, const MeshShape& shape, const launch::ComputeDevice& on)
      : world_(world), shape_(shape), on_(on) {}
  const comm::Mesh& get() {
    if (!mesh_) mesh_.emplace(world_, shape_, folding(), on_.device, on_.transport);
    return *mesh_;
  }
  const MeshShape& shape() const { return shape_; }
  // All replicas share the experts.
  comm::Folding folding() const { return {1, shape_.data * shape_.context}; }

 private:
  comm::World& world_;
  MeshShape shape_;
  launch::ComputeDevice on_;
  std::optional<comm::Mesh> mesh_;
};

int least_factor(int n) {
  for (int f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

// Every rank along one axis; then two meshes of two axes each.
std::vector<MeshShape> meshes_of(int ranks) {
  std::vector<MeshShape> shapes = {{.data = ranks}};
  if (ranks == 1) return shapes;
  const int inner = least_factor(ranks);
  shapes.push_back({.data = ranks / inner, .tensor = inner});
  shapes.push_back({.pipeline = inner, .context = ranks / inner});
  return shapes;
}

// `run` in each type at each length.
void run_all(Probe& probe, const Members& of,
             void (*run)(Probe&, const Members&, DType, std::int64_t)) {
  for (const DType dtype : types)
    for (const std::int64_t n : lengths)
      run(probe, of, dtype, std::min(n, most_elements / of.size() + 1));
}

// Stages and the ranks of a ring send to neighbours; with NCCL no other axis has links,
// so that what others send is an exchange.
void add_group(std::vector<Check>& checks, const std::shared_ptr<LazyMesh>& mesh,
               Axis axis, int rank) {
  const bool linked = axis == Axis::pipeline || axis == Axis::context;
  for (const Row& row : rows) {
    if (row.kind == Collective::send && mesh->shape().size() == 1) continue;
    checks.push_back({format("{} on {} ranks of axis {}", name_of(row.kind),
                             mesh->shape().extent(axis), name_of(axis)),
                      [mesh, axis, rank, linked, &row](Probe& probe) {
                        run_all(probe,
                                {mesh->get().group(axis),
                                 members_of(mesh->shape(), axis, rank), linked},
                                row.run);
                      },
                      true});
  }
}

// Of all ranks, which have the experts.
void add_exchange(std::vector<Check>& checks, const std::shared_ptr<LazyMesh>& mesh,
                  int rank) {
  checks.push_back(
      {format("exchange of experts on {} ranks", mesh->shape().data),
       [mesh, rank](Probe& probe) {
         run_all(probe,
                 {mesh->get().experts(), members_of(mesh->shape(), Axis::data, rank)},
                 check_exchange);
       },
       true});
}

}  // namespace

std::vector<Check> collective_checks(comm::World& world,
                                     const launch::ComputeDevice& on) {
  std::vector<Check> checks;
  for (const MeshShape& shape : meshes_of(world.size())) {
    const auto mesh = std::make_shared<LazyMesh>(world, shape, on);
    for (int a = 0; a < comm::axes; ++a) {
      const auto axis = static_cast<Axis>(a);
      // A world of one rank has its data axis, whose collectives are copies.
      if (shape.extent(axis) > 1 || (shape.size() == 1 && axis == Axis::data))
        add_group(checks, mesh, axis, world.rank());
    }
    if (shape.data == world.size() && world.size() > 1)
      add_exchange(checks, mesh, world.rank());
  }
  return checks;
}

}  // namespace trireme::selftest
