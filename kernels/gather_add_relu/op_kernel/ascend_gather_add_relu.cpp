// Entry point of gather, add and relu; see ascend_sigmoid.cpp. Its types are those of table and
// indices.
#include "kernel_operator.h"

#include "../gather_add_relu_kernel.h"

extern "C" __global__ __aicore__ void ascend_gather_add_relu(GM_ADDR table, GM_ADDR indices,
                                                             GM_ADDR addend, GM_ADDR y,
                                                             GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(ascend_ops::GatherAddReluTiling);
    GET_TILING_DATA(data, tiling);
    (void)workspace;
    AscendC::TPipe pipe;
    ascend_ops::GatherAddReluKernel<DTYPE_TABLE, DTYPE_INDICES> kernel;
    kernel.Init(table, indices, addend, y, data, &pipe);
    kernel.Process();
}
