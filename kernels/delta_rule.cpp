// The gated delta rule: checks, then the implementation of the stream's device.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/delta_rule.hpp"

#include <algorithm>

#include "kernels/checks.hpp"
#include "kernels/dispatch.hpp"
#include "kernels/math/delta_space.hpp"
#include "kernels/runtime/plan_working_memory.hpp"
#include "kernels/runtime/runtime.hpp"

namespace trireme::kernels {
namespace host {
void delta_rule(Stream& stream, const TensorView& memory, const DeltaShape& shape,
                const DeltaInputs& in, const TensorView& o_TGV, const TensorView& states,
                const TensorView& state);
void delta_rule_backward(Stream& stream, const TensorView& memory,
                         const DeltaShape& shape, const TensorView& do_TGV,
                         const DeltaInputs& in, const TensorView& states,
                         const DeltaInputs& d);
}  // namespace host
namespace cuda {
decltype(host::delta_rule) delta_rule;
decltype(host::delta_rule_backward) delta_rule_backward;
}  // namespace cuda

TRIREME_BACK_ENDS(delta_gates);
TRIREME_BACK_ENDS(delta_gates_backward);

namespace {

ProfileFamily family("delta rule");

void check_inputs(const Checks& check, const DeltaShape& shape, DType dtype,
                  const DeltaInputs& in) {
  const std::int64_t T = shape.batch * shape.sequence, G = shape.value_heads;
  const DType wide = accumulator_of(dtype);
  check.tensor({"q", in.q_THK}, dtype, {T, shape.key_heads * shape.key_width});
  check.tensor({"k", in.k_THK}, dtype, {T, shape.key_heads * shape.key_width});
  check.tensor({"v", in.v_TGV}, dtype, {T, G * shape.value_width});
  check.tensor({"g", in.g_TG}, wide, {T, G});
  check.tensor({"beta", in.beta_TG}, wide, {T, G});
  check.dense({"g", in.g_TG});
  check.dense({"beta", in.beta_TG});
}

void check_shape(const Checks& check, const DeltaShape& shape, const DeltaInputs& in) {
  check.matrix({"q", in.q_THK});
  require(shape.key_heads > 0 && shape.value_heads % shape.key_heads == 0,
          "delta_rule: {} value heads cannot share {} key heads", shape.value_heads,
          shape.key_heads);
  if (!shape.starts_T.empty())
    check.tensor({"starts", shape.starts_T}, DType::i32, {shape.batch * shape.sequence});
  check_inputs(check, shape, in.q_THK.dtype(), in);
}

// A working space for each thread of a host; a GPU has one in its own workspace for each
// key head of a sequence.
TensorView working_memory(Stream& stream, Arena& scratch, const DeltaShape& shape,
                          DType dtype, std::int64_t each) {
  const std::int64_t heads = shape.batch * shape.key_heads;
  plan_working_memory(stream, [&] {
    return heads * each * static_cast<std::int64_t>(size_of(accumulator_of(dtype)));
  });
  if (stream.device().is_cuda()) return {};
  const std::int64_t spaces = std::min<std::int64_t>(heads, threads());
  return scratch.take(accumulator_of(dtype), {spaces, each}, "delta rule");
}

}  // namespace

void delta_rule(Stream& stream, Arena& scratch, const DeltaShape& shape,
                const DeltaInputs& in, const TensorView& o_TGV, const TensorView& states,
                const TensorView& state) {
  const Checks check("delta_rule", stream);
  check_shape(check, shape, in);
  const DType dtype = in.q_THK.dtype();
  check.tensor({"o", o_TGV}, dtype, in.v_TGV.shape());
  require(states.empty() != state.empty(),
          "delta_rule: either states are kept, or one goes on");
  if (!states.empty())
    check.tensor({"states", states}, accumulator_of(dtype), shape.states());
  if (!state.empty())
    check.tensor({"state", state}, accumulator_of(dtype), shape.state());
  const ArenaScope scope(scratch);
  const TensorView memory =
      working_memory(stream, scratch, shape, dtype,
                     math::delta_forward_elements(shape.key_width, shape.value_width));
  run_kernel<host::delta_rule, cuda::delta_rule>(family, stream, memory, shape, in, o_TGV,
                                                 states, state);
}

void delta_rule_backward(Stream& stream, Arena& scratch, const DeltaShape& shape,
                         const TensorView& do_TGV, const DeltaInputs& in,
                         const TensorView& states, const DeltaInputs& d) {
  const Checks check("delta_rule_backward", stream);
  check_shape(check, shape, in);
  const DType dtype = in.q_THK.dtype();
  check_inputs(check, shape, dtype, d);
  check.tensor({"do", do_TGV}, dtype, in.v_TGV.shape());
  check.tensor({"states", states}, accumulator_of(dtype), shape.states());
  const ArenaScope scope(scratch);
  const TensorView memory =
      working_memory(stream, scratch, shape, dtype,
                     math::delta_backward_elements(shape.key_width, shape.value_width,
                                                   shape.value_heads / shape.key_heads));
  run_kernel<host::delta_rule_backward, cuda::delta_rule_backward>(
      family, stream, memory, shape, do_TGV, in, states, d);
}

namespace {

void check_gates(const Checks& check, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G) {
  check.matrix({"a", a_TG});
  const std::int64_t G = a_TG.dim(1);
  check.tensor({"b", b_TG}, a_TG.dtype(), a_TG.shape());
  check.tensor({"decay", decay_G}, a_TG.dtype(), {G});
  check.tensor({"bias", bias_G}, a_TG.dtype(), {G});
}

void check_wide(const Checks& check, const TensorView& a_TG, Argument argument) {
  check.tensor(argument, accumulator_of(a_TG.dtype()), a_TG.shape());
  check.dense(argument);
}

}  // namespace

void delta_gates(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                 const TensorView& decay_G, const TensorView& bias_G,
                 const TensorView& g_TG, const TensorView& beta_TG) {
  const Checks check("delta_gates", stream);
  check_gates(check, a_TG, b_TG, decay_G, bias_G);
  check_wide(check, a_TG, {"g", g_TG});
  check_wide(check, a_TG, {"beta", beta_TG});
  run_kernel<host::delta_gates, cuda::delta_gates>(family, stream, a_TG, b_TG, decay_G,
                                                   bias_G, g_TG, beta_TG);
}

void delta_gates_backward(Stream& stream, const TensorView& a_TG, const TensorView& b_TG,
                          const TensorView& decay_G, const TensorView& bias_G,
                          const TensorView& dg_TG, const TensorView& dbeta_TG,
                          const TensorView& da_TG, const TensorView& db_TG) {
  const Checks check("delta_gates_backward", stream);
  check_gates(check, a_TG, b_TG, decay_G, bias_G);
  check_wide(check, a_TG, {"dg", dg_TG});
  check_wide(check, a_TG, {"dbeta", dbeta_TG});
  check.tensor({"da", da_TG}, a_TG.dtype(), a_TG.shape());
  check.tensor({"db", db_TG}, a_TG.dtype(), a_TG.shape());
  run_kernel<host::delta_gates_backward, cuda::delta_gates_backward>(
      family, stream, a_TG, b_TG, decay_G, bias_G, dg_TG, dbeta_TG, da_TG, db_TG);
}

}  // namespace trireme::kernels
