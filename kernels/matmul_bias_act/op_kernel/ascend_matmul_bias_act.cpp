// Entry point of the matrix product; see ascend_sigmoid.cpp. Its type is that of a.
#include "kernel_operator.h"

#include "../matmul_bias_act_kernel.h"

extern "C" __global__ __aicore__ void ascend_matmul_bias_act(GM_ADDR a, GM_ADDR b, GM_ADDR bias,
                                                             GM_ADDR y, GM_ADDR workspace,
                                                             GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    REGISTER_TILING_DEFAULT(ascend_ops::MatmulBiasActTiling);
    GET_TILING_DATA(data, tiling);
    ascend_ops::MatmulBiasAct<DTYPE_A>(a, b, bias, y,
                                         AscendC::GetUserWorkspace(workspace), data);
}
