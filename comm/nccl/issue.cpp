// Calls of NCCL for collectives: types, parts and peers.
// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/issue.hpp"

namespace trireme::comm {
namespace {

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::f16: return ncclFloat16;
    default: return ncclUint8;  // never reduced: Group has checked
  }
}

// Part p of `from` to rank p, for all p at once.
ncclResult_t all_to_all(const TensorView& from, const TensorView& to, int size,
                        ncclComm_t comm, cudaStream_t queue) {
  const std::size_t part = from.bytes() / static_cast<std::size_t>(size);
  if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess) return code;
  ncclResult_t worst = ncclSuccess;
  const auto note = [&](ncclResult_t code) {
    if (code != ncclSuccess && code != ncclInProgress) worst = code;
  };
  for (int p = 0; p < size; ++p) {
    const std::size_t at = static_cast<std::size_t>(p) * part;
    note(ncclSend(static_cast<const std::byte*>(from.raw()) + at, part, ncclUint8, p,
                  comm, queue));
    note(ncclRecv(static_cast<std::byte*>(to.raw()) + at, part, ncclUint8, p, comm,
                  queue));
  }
  const ncclResult_t code = ncclGroupEnd();
  return worst != ncclSuccess ? worst : code;
}

}  // namespace

ncclResult_t issue(const Group::Call& call, const TensorView& from, const TensorView& to,
                   int size, int peer, ncclComm_t comm, cudaStream_t queue) {
  const ncclDataType_t type = type_of(call.dtype);
  const auto elements = static_cast<std::size_t>(to.elements());
  switch (call.kind) {
    case Collective::all_reduce:
      return ncclAllReduce(from.raw(), to.raw(), elements, type,
                           call.reduce == Reduce::max ? ncclMax : ncclSum, comm, queue);
    case Collective::reduce_scatter:
      return ncclReduceScatter(from.raw(), to.raw(), elements, type, ncclSum, comm,
                               queue);
    case Collective::all_gather:
      return ncclAllGather(from.raw(), to.raw(), from.bytes(), ncclUint8, comm, queue);
    case Collective::reduce:
      return ncclReduce(from.raw(), to.raw(), elements, type,
                        call.reduce == Reduce::max ? ncclMax : ncclSum, call.peer, comm,
                        queue);
    case Collective::broadcast:
      return ncclBroadcast(from.raw(), to.raw(), to.bytes(), ncclUint8, call.peer, comm,
                           queue);
    case Collective::all_to_all: return all_to_all(from, to, size, comm, queue);
    case Collective::send:
      return ncclSend(from.raw(), from.bytes(), ncclUint8, peer, comm, queue);
    case Collective::receive:
      return ncclRecv(to.raw(), to.bytes(), ncclUint8, peer, comm, queue);
  }
  return ncclInvalidArgument;
}

}  // namespace trireme::comm
