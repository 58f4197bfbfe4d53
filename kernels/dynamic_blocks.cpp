// The dynamic type by blocks of a tensor: checks, then the stream's device does it.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/dynamic_blocks.hpp"

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"

namespace trireme::kernels {

TRIREME_BACK_ENDS(absmax_of_run);
TRIREME_BACK_ENDS(encode_run);
TRIREME_BACK_ENDS(decode_run);

namespace {

ProfileFamily family("quantize");

// One absmax for each block from that of the run's first element to that of its last.
void check_blocks(const Checks& check, const TensorView& absmax_B, const TensorRun& run,
                  DynamicBlocks blocks, std::int64_t elements) {
  check.tensor({"absmax", absmax_B}, DType::f32, {absmax_B.elements()});
  if (elements == 0) return;
  const std::int64_t begin = run.index(0), last = run.index(elements - 1);
  require(blocks.first <= begin / dynamic_block &&
              last / dynamic_block - blocks.first < absmax_B.elements() &&
              last < blocks.elements,
          "{} absmax from block {} on are not those of a run from {} to {} of {}",
          absmax_B.elements(), blocks.first, begin, last, blocks.elements);
}

}  // namespace

void absmax_of_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                   DynamicBlocks blocks, const TensorView& absmax_B) {
  const Checks check("absmax_of_run", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check_blocks(check, absmax_B, run, blocks, x_N.elements());
  run_kernel<host::absmax_of_run, cuda::absmax_of_run>(family, stream, x_N, run, blocks,
                                                       absmax_B);
}

void encode_run(Stream& stream, const TensorView& x_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& codes_N) {
  const Checks check("encode_run", stream);
  check.tensor({"x", x_N}, DType::f32, {x_N.elements()});
  check.tensor({"codes", codes_N}, DType::u8, x_N.shape());
  check_blocks(check, absmax_B, run, blocks, x_N.elements());
  run_kernel<host::encode_run, cuda::encode_run>(family, stream, x_N, run, type, blocks,
                                                 absmax_B, codes_N);
}

void decode_run(Stream& stream, const TensorView& codes_N, const TensorRun& run,
                DynamicType type, DynamicBlocks blocks, const TensorView& absmax_B,
                const TensorView& y_N) {
  const Checks check("decode_run", stream);
  check.tensor({"y", y_N}, DType::f32, {y_N.elements()});
  check.tensor({"codes", codes_N}, DType::u8, y_N.shape());
  check_blocks(check, absmax_B, run, blocks, y_N.elements());
  run_kernel<host::decode_run, cuda::decode_run>(family, stream, codes_N, run, type,
                                                 blocks, absmax_B, y_N);
}

}  // namespace trireme::kernels
