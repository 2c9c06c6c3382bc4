// Entry point of the embedding gradient; see ascend_sigmoid.cpp. Its type is that of grad.
#include "kernel_operator.h"

#include "../embedding_dense_grad_kernel.h"

extern "C" __global__ __aicore__ void ascend_embedding_dense_grad(GM_ADDR grad, GM_ADDR indices,
                                                                  GM_ADDR table_grad,
                                                                  GM_ADDR workspace,
                                                                  GM_ADDR tiling)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    REGISTER_TILING_DEFAULT(ascend_ops::EmbeddingDenseGradTiling);
    GET_TILING_DATA(data, tiling);
    (void)workspace;
    AscendC::TPipe pipe;
    ascend_ops::EmbeddingDenseGradKernel<DTYPE_GRAD> kernel;
    kernel.Init(grad, indices, table_grad, data, &pipe);
    kernel.Process();
}
