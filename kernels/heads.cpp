// Columns of heads: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/heads.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(copy_heads);
TRIREME_BACK_ENDS(sum_heads);

namespace {

ProfileFamily family("heads");

void check_columns(const Checks& check, std::string_view name, const HeadColumns& of,
                   std::int64_t width) {
  check.matrix({name, of.x_TE});
  const std::int64_t columns = of.x_TE.dim(1);
  require(of.heads >= 1 && columns % of.heads == 0,
          "heads: {} of {} columns has not {} heads", name, columns, of.heads);
  require(of.first >= 0 && width >= 0 && of.first + width <= columns / of.heads,
          "heads: a head of {} has no columns [{}, {})", name, of.first,
          of.first + width);
}

void check_both(const Checks& check, const HeadColumns& from, const HeadColumns& to,
                std::int64_t width) {
  check_columns(check, "from", from, width);
  check_columns(check, "to", to, width);
  check.tensor({"to", to.x_TE}, from.x_TE.dtype(), {from.x_TE.dim(0), to.x_TE.dim(1)});
}

}  // namespace

void copy_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
                std::int64_t width) {
  check_both(Checks("copy_heads", stream), from, to, width);
  require(from.heads == 1 || from.heads == to.heads,
          "copy_heads: {} heads cannot go to {}", from.heads, to.heads);
  run_kernel<host::copy_heads, cuda::copy_heads>(family, stream, from, to, width);
}

void sum_heads(Stream& stream, const HeadColumns& from, const HeadColumns& to,
               std::int64_t width) {
  check_both(Checks("sum_heads", stream), from, to, width);
  require(to.heads == 1, "sum_heads: the sum of heads is one, not {}", to.heads);
  run_kernel<host::sum_heads, cuda::sum_heads>(family, stream, from, to, width);
}

}  // namespace trireme::kernels
