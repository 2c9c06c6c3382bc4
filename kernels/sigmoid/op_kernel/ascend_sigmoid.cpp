// Entry point of the sigmoid kernel. CANN's build compiles it once for each type of the operator
// definition and sets DTYPE_X; cpusim includes the same file for each type.
#include "kernel_operator.h"

#include "../sigmoid_kernel.h"

extern "C" __global__ __aicore__ void ascend_sigmoid(GM_ADDR x, GM_ADDR y, GM_ADDR workspace,
                                                     GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(ascend_ops::SigmoidTiling);
    GET_TILING_DATA(data, tiling);
    (void)workspace;
    AscendC::TPipe pipe;
    ascend_ops::SigmoidKernel<DTYPE_X> kernel;
    kernel.Init(x, y, data, &pipe);
    kernel.Process();
}
