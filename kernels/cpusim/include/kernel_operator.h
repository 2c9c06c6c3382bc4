// The emulator's stand-in for CANN's header of the same name: an Ascend C kernel file includes
// only this, and compiles with a host compiler against it as it does with bisheng against CANN's.
//
// Signatures are no looser than the real ones, and element types are checked for the SoC that
// `__NPU_ARCH__` names. CPUSIM_CHECKED=1 also checks at run time what the hardware does not
// report: order between pipes, bounds, alignment, initialisation, lifetime of tensors.
#pragma once

#ifndef CPUSIM_CHECKED
#error "cpusim: define CPUSIM_CHECKED as 0 (fast) or 1 (checked)"
#endif

#include "cpusim/arch.h"
#include "cpusim/cast.h"
#include "cpusim/core.h"
#include "cpusim/cube.h"
#include "cpusim/data_copy.h"
#include "cpusim/queue.h"
#include "cpusim/sync.h"
#include "cpusim/tensor.h"
#include "cpusim/vector_ops.h"

namespace AscendC {
// Under CANN the system's own part of the workspace comes first; here there is none.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace; }
}  // namespace AscendC

// The entry point's macros: the task type steers CANN's compiler only, tiling data is a plain
// struct in memory.
#define KERNEL_TYPE_AIV_ONLY 0
#define KERNEL_TYPE_MIX_AIC_1_2 6
#define KERNEL_TASK_TYPE_DEFAULT(type)
#define REGISTER_TILING_DEFAULT(tiling_struct) using CpusimTilingStruct = tiling_struct
#define GET_TILING_DATA(name, address) \
    CpusimTilingStruct name;           \
    __builtin_memcpy(&name, address, sizeof(name))
