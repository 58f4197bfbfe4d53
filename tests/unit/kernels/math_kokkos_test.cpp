// The formulas of kernels/math in Kokkos kernels of teams, against the reference.
// SPDX-License-Identifier: Apache-2.0
// They run on Kokkos's default space, whatever its build has: a portable device will be
// made of them.
#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "base/philox.hpp"
#include "kernels/math/activation.hpp"
#include "kernels/math/norm.hpp"
#include "kernels/math/rope.hpp"
#include "kernels/reference/activation.hpp"
#include "kernels/reference/norm.hpp"
#include "kernels/reference/rope.hpp"

namespace trireme::kernels {
namespace {

using Policy = Kokkos::TeamPolicy<>;
using Matrix = Kokkos::View<double**>;
using HostMatrix = decltype(Kokkos::create_mirror_view(std::declval<const Matrix&>()));

constexpr int rows = 5, columns = 34;

// The arithmetic of the formulas on a device of Kokkos.
struct KokkosMath {
  template <class A>
  TRIREME_HOST_DEVICE static A exp_of_nonpositive(A x) {
    return std::exp(x);
  }
  template <class A>
  TRIREME_HOST_DEVICE static A divide(A a, A b) {
    return a / b;
  }
};

// y = formula(x), one row a team.
struct Activate {
  Matrix x, y;
  TRIREME_HOST_DEVICE void operator()(const Policy::member_type& team) const {
    const int row = team.league_rank();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns), [&](int c) {
      y(row, c) = math::Gelu<KokkosMath>::value(x(row, c));
    });
  }
};

// y = x / sqrt(mean(x^2) + eps), one row a team.
struct Normalize {
  Matrix x, y;
  double eps = 1e-5;
  TRIREME_HOST_DEVICE void operator()(const Policy::member_type& team) const {
    const int row = team.league_rank();
    double squares = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, columns),
        [&](int c, double& sum) { sum += x(row, c) * x(row, c); }, squares);
    const double rstd = math::reciprocal_root(squares / columns, eps);
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, columns), [&](int c) {
      y(row, c) = math::normalized(x(row, c), 0.0, rstd);
    });
  }
};

// y = x, one head a row, at the position that is the row's number.
struct Rotate {
  Matrix x, y;
  double theta = 10.0;
  TRIREME_HOST_DEVICE void operator()(const Policy::member_type& team) const {
    constexpr int half = columns / 2;
    const int row = team.league_rank();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, half), [&](int c) {
      const double angle = row * math::rope_frequency(c, half, theta);
      const auto pair =
          math::rotated(x(row, c), x(row, c + half), std::cos(angle), std::sin(angle));
      y(row, c) = pair.first;
      y(row, c + half) = pair.second;
    });
  }
};

std::vector<double> row_major(const HostMatrix& x) {
  std::vector<double> values;
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) values.push_back(x(r, c));
  return values;
}

class MathOnKokkos : public testing::Test {
 protected:
  MathOnKokkos() : x_("x", rows, columns), y_("y", rows, columns) {
    const auto x = Kokkos::create_mirror_view(x_);
    const Random random(1, 2);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c)
        x(r, c) = 3 * random.normal(static_cast<std::uint64_t>(r * columns + c));
    Kokkos::deep_copy(x_, x);
    given_ = x;
  }
  template <class F>
  HostMatrix run(const F& f) {
    Kokkos::parallel_for("math", Policy(rows, Kokkos::AUTO), f);
    Kokkos::fence();
    const auto y = Kokkos::create_mirror_view(y_);
    Kokkos::deep_copy(y, y_);
    return y;
  }

  Matrix x_, y_;
  HostMatrix given_;
};

TEST_F(MathOnKokkos, Activation) {
  const std::vector<double> x = row_major(given_), y = row_major(run(Activate{x_, y_}));
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(y[i], reference::activation(Activation::gelu, x[i]), 1e-13);
}

TEST_F(MathOnKokkos, Norm) {
  const std::vector<double> y = row_major(run(Normalize{x_, y_}));
  const std::vector<double> gain(columns, 1.0);
  const auto expected = reference::norm(row_major(given_), gain, {}, 1e-5);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected.y_TD[i], 1e-13);
}

TEST_F(MathOnKokkos, Rotation) {
  const std::vector<double> y = row_major(run(Rotate{x_, y_}));
  std::vector<int> positions(rows);
  std::iota(positions.begin(), positions.end(), 0);
  const auto expected =
      reference::rope(row_major(given_), 1, columns, positions, 10.0, 1.0);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], expected[i], 1e-13);
}

}  // namespace
}  // namespace trireme::kernels
