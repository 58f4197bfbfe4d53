// Which elements dropout keeps, the same on hosts and GPUs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.hpp"
#include "base/philox.hpp"
#include "kernels/dropout.hpp"
#include "kernels/math/sequence_number.hpp"

namespace trireme::kernels::math {

// Two columns share the 64 bits of a draw.
class DropoutMask {
 public:
  DropoutMask(const DropoutKey& key, double rate, std::int64_t columns)
      : random_(key.seed, key.stream),
        first_sequence_(key.first_sequence, key.first_sequence_1),
        first_token_(key.first_token),
        here_(key.here),
        sequence_(key.sequence),
        first_column_(key.first_column),
        draws_(((key.columns > 0 ? key.columns : columns) + 1) / 2),
        below_(static_cast<std::uint64_t>(std::llround(rate * 0x1p32))) {}

  // The row of the run in which token `t` at this position lies.
  TRIREME_HOST_DEVICE std::int64_t row(std::int64_t t, std::int32_t position) const {
    return (first_sequence_.value() + (t + first_token_) / here_) * sequence_ + position;
  }
  TRIREME_HOST_DEVICE bool keeps(std::int64_t row, std::int64_t own_column) const {
    return kept_by(draw(row, own_column), own_column);
  }
  // The same in two steps, for a thread that has neighbours: the draw of a column, which
  // the next one shares unless it begins its own.
  TRIREME_HOST_DEVICE bool begins_draw(std::int64_t own_column) const {
    return (own_column + first_column_) % 2 == 0;
  }
  TRIREME_HOST_DEVICE std::uint64_t draw(std::int64_t row,
                                         std::int64_t own_column) const {
    const std::int64_t column = own_column + first_column_;
    return random_.bits(static_cast<std::uint64_t>(row * draws_ + column / 2));
  }
  TRIREME_HOST_DEVICE bool kept_by(std::uint64_t draw, std::int64_t own_column) const {
    return (begins_draw(own_column) ? draw & 0xffffffffu : draw >> 32) >= below_;
  }

 private:
  Random random_;
  SequenceNumber first_sequence_;
  std::int64_t first_token_, here_, sequence_, first_column_;
  std::int64_t draws_;
  std::uint64_t below_;
};

}  // namespace trireme::kernels::math
