// Entry point of the convolution; see ascend_sigmoid.cpp. Its type is that of x.
#include "kernel_operator.h"

#include "../conv2d_bias_relu_kernel.h"

extern "C" __global__ __aicore__ void ascend_conv2d_bias_relu(GM_ADDR x, GM_ADDR filter,
                                                              GM_ADDR bias, GM_ADDR y,
                                                              GM_ADDR workspace, GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(ascend_ops::Conv2dBiasReluTiling);
    GET_TILING_DATA(data, tiling);
    ascend_ops::Conv2dBiasRelu<DTYPE_X>(x, filter, bias, y,
                                         AscendC::GetUserWorkspace(workspace), data);
}
