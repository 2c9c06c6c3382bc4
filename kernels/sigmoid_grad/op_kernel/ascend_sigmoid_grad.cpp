// Entry point of the sigmoid gradient kernel; see ascend_sigmoid.cpp. Its type is that of y.
#include "kernel_operator.h"

#include "../sigmoid_grad_kernel.h"

extern "C" __global__ __aicore__ void ascend_sigmoid_grad(GM_ADDR y, GM_ADDR dy, GM_ADDR dx,
                                                          GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(ascend_ops::SigmoidGradTiling);
    GET_TILING_DATA(data, tiling);
    (void)workspace;
    AscendC::TPipe pipe;
    ascend_ops::SigmoidGradKernel<DTYPE_Y> kernel;
    kernel.Init(y, dy, dx, data, &pipe);
    kernel.Process();
}
